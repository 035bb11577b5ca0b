-- This instance claims nothing any more, and polls no lane: those that it had marked hot are cold from the same commit on, and
-- others look for what came since its last poll.   $1 instance   $2 incarnation   $3 lanes
with draining as (
    update wakeful.instance
    set state = 'draining'
    where instance_id = $1 and incarnation = $2 and state = 'live'
),
hot as (
    select l.lane_id
    from wakeful.lane l
    where l.lane_id = any ($3::bigint[]) and l.hot_until > clock_timestamp()
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
