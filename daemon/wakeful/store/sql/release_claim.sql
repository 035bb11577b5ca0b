-- Give back what a claim with a lost reply took: its token is ours, nothing of it was started. What somebody else has
-- locked is left, and counted. $1 lane   $2 the token   $3 the first position that the claim can have taken
with taken as materialized (
    select count(*) as rows from wakeful.ready r where r.lane_id = $1 and r.pos >= $3 and r.claim = $2
),
held as materialized (
    select r.ctid as row_id
    from wakeful.ready r
    where r.lane_id = $1 and r.pos >= $3 and r.claim = $2
    for update skip locked
),
gone as (
    delete from wakeful.ready r
    where r.lane_id = $1 and r.ctid = any (array(select h.row_id from held h))
    returning r as job
),
back as materialized (
    select count(d.job_id) as rows
    from (
        select array_agg(row (g.job, 'put_back', null, null, null, $2)::wakeful.departure) as departures from gone g
    ) as departing
    cross join lateral wakeful.depart(departing.departures) as d
)
select back.rows as released, taken.rows - back.rows as left_behind
from taken, back
