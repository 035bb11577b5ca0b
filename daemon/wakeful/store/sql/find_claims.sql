-- The claims by which an owner has jobs of one lane. $1 lane   $2 positions   $3 owner
select r.pos, r.job_id, r.claim
from unnest($2::bigint[]) as i (pos)
cross join lateral (
    select r.pos, r.job_id, r.claim from wakeful.ready r where r.lane_id = $1 and r.pos = i.pos and r.owner = $3 limit 1
) as r
