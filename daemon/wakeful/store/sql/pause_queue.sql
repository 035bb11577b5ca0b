-- Claim nothing more from a queue.   $1 queue   $2 reason
select wakeful.pause($1, $2) as changed
