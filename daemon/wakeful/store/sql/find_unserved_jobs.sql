-- Waiting jobs of a lane whose job type nobody serves, in the lane's order; locks nothing.
-- $1 lane   $2 the position after which to look   $3 at most so many
select r.pos, r.job_id
from wakeful.ready r
where r.lane_id = $1 and r.pos > $2 and coalesce(r.owner < 0, true)
order by r.lane_id, r.pos
limit (select $3::bigint)
