-- Cancel a job, or ask its owner to.   $1 job   $2 reason
select wakeful.cancel($1, $2) as status
