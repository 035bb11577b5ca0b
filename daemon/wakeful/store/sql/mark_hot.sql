-- Say that these lanes are polled for the next two seconds, so that enqueue need not notify. Skips what is locked.
-- $1 lanes
with cold as (
    select l.lane_id
    from wakeful.lane l
    where l.lane_id = any ($1::bigint[]) and l.hot_until < clock_timestamp() + interval '1 second'
    order by l.lane_id
    for no key update skip locked
)
update wakeful.lane l
set hot_until = clock_timestamp() + interval '2 seconds'
from cold
where l.lane_id = cold.lane_id
