-- This instance claims nothing any more, and polls no lane: those that it had marked hot are cold from the same commit on, and
-- others look for what came since its last poll.   $1 instance   $2 incarnation   $3 lanes
with draining as (
    update wakeful.instance
    set state = 'draining'
    where instance_id = $1 and incarnation = $2 and state = 'live'
)
select wakeful.cool_lanes($3::bigint[])
