-- Empty the slots of the ring of finished jobs that are past the history.   $1 history in seconds
select e.slot, e.emptied
from wakeful.expire_finished(make_interval(secs => $1::double precision)) as e
