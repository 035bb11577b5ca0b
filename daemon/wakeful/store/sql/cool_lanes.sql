-- These lanes are not polled any more: whoever enqueues notifies again, and others look for what came since the last poll.
-- Skips what is locked. Commits asynchronously: a mark that stays runs out within two seconds.   $1 lanes
with hurried as materialized (
    select set_config('synchronous_commit', 'off', true)
),
hot as (
    select l.lane_id
    from wakeful.lane l
    where l.lane_id = any ($1::bigint[]) and l.hot_until > clock_timestamp()
    order by l.lane_id
    for no key update skip locked
),
cooled as (
    update wakeful.lane l
    set hot_until = clock_timestamp()
    from hot h
    where l.lane_id = h.lane_id
    returning l.lane_id
)
select pg_notify('wakeful', c.lane_id::text) as told
from cooled c
where (select count(*) from hurried) >= 0
