-- The next slice of ready by its primary key: the owned positions of each lane, by owner. Locks nothing. The limit is a query,
-- so that a planner with old statistics, who thinks that the slice is all there is, does not sort the whole table for it.
-- $1 $2 lane and position that the last slice ended at   $3 rows   $4 seconds that a job may be past twice its deadline
with slice as materialized (
    select
        r.lane_id, r.pos, r.owner,
        r.owner is not null and r.deadline_at + r.deadline + make_interval(secs => $4::double precision) < clock_timestamp() as overdue
    from wakeful.ready r
    where (r.lane_id, r.pos) > ($1, $2)
    order by r.lane_id, r.pos
    limit (select $3::bigint)
)
select
    s.lane_id, s.owner, s.overdue, max(s.pos) as last_pos, count(*) as seen,
    array_agg(s.pos order by s.pos) filter (where s.owner is not null) as positions
from slice s
group by s.lane_id, s.owner, s.overdue
