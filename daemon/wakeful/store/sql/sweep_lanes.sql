-- The first job of each lane that nobody owns, as far as positions are settled: behind a cursor such a job was committed
-- late, or was locked when a claim passed. Locks nothing and waits for nothing; what is locked is seen all the same.
-- $1 lanes   $2 the positions after which to look in them   $3 the last position to look at
select k.lane_id, first.pos
from unnest($1::bigint[], $2::bigint[]) as k (lane_id, after)
cross join lateral (
    select r.pos
    from wakeful.ready r
    where r.lane_id = k.lane_id and r.pos > k.after and r.pos <= $3 and coalesce(r.owner < 0, true)
    order by r.pos
    limit 1
) as first
