-- End an alert by hand.   $1 alert   $2 reason
select wakeful.resolve($1, $2) as changed
