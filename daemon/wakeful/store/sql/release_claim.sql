-- Give back what a claim with a lost reply took: its token is ours, nothing of it was started.
-- $1 lane   $2 the token
with held as materialized (
    select r.ctid as row_id
    from wakeful.ready r
    where r.lane_id = $1 and r.claim = $2
    for update skip locked
),
gone as (
    delete from wakeful.ready r
    where r.lane_id = $1 and r.ctid = any (array(select h.row_id from held h))
    returning r as job
)
select d.job_id
from (
    select array_agg(row (g.job, 'put_back', null, null, null, $2)::wakeful.departure) as departures from gone g
) as departing
cross join lateral wakeful.depart(departing.departures) as d
