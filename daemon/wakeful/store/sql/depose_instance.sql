-- Declare an owner dead whose longest lease is past and whose beat has not moved; committed before its jobs are taken.
-- $1 instance   $2 incarnation   $3 the beat that was watched   $4 seconds that the reaper itself watched it stand still
with silent as (
    select i.instance_id
    from wakeful.instance i
    where i.instance_id = $1 and i.incarnation = $2 and i.beat_seq = $3 and i.state in ('live', 'draining')
      and greatest(extract(epoch from clock_timestamp() - i.beat_at), $4::double precision) > extract(epoch from i.lease)
    for no key update skip locked
)
update wakeful.instance i
set state = 'dead', swept = 0
from silent
where i.instance_id = silent.instance_id
returning i.instance_id
