-- What a claim took, and whoever made it has still.   $1 lane   $2 the token   $3 the first position that it can have taken
select r.pos, r.job_id
from wakeful.ready r
where r.lane_id = $1 and r.pos >= $3 and r.claim = $2
order by r.lane_id, r.pos
