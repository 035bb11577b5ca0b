-- Which of these claims still hold, and of which was the cancellation asked for, and why: one look by primary key with each
-- beat.
-- $1 lanes   $2 positions   $3 tokens
select i.n::integer as n, r.cancel_requested_at is not null as cancel_requested, r.cancel_reason
from unnest($1::bigint[], $2::bigint[], $3::bigint[]) with ordinality as i (lane_id, pos, claim, n)
cross join lateral (
    select r.cancel_requested_at, r.cancel_reason
    from wakeful.ready r
    where r.lane_id = i.lane_id and r.pos = i.pos and r.claim = i.claim
    limit 1
) as r
