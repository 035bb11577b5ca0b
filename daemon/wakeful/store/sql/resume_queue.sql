-- Open a paused queue again.   $1 queue
select wakeful.resume($1) as changed
