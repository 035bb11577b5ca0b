-- The next jobs of scheduled that are due, by lane, and the seconds until the next one after those: by the server's clock,
-- so that the daemon's own does not matter. Locks nothing. One row at least.   $1 at most so many jobs   $2 after so many
-- The time is read once, in a query of its own: a volatile function could not be looked up in the index. So is the limit: a
-- planner with old statistics, who thinks that so many jobs are all there are, would sort the whole table.
with due as materialized (
    select s.lane_id, s.job_id
    from wakeful.scheduled s
    where s.run_after <= (select clock_timestamp())
    order by s.run_after
    offset (select $2::bigint)
    limit (select $1::bigint)
),
next as (
    select extract(epoch from min(s.run_after) - clock_timestamp())::double precision as seconds
    from wakeful.scheduled s
    where s.run_after > (select clock_timestamp())
)
select d.lane_id, d.job_ids, n.seconds
from next n
left join (select d.lane_id, array_agg(d.job_id) as job_ids from due d group by d.lane_id) as d on true
