-- Send once more what was given up.   $1 alert (null: any)   $2 sink (null: any)
select wakeful.resend($1, $2) as messages
