-- The jobs that run now, the longest running first.   $1 rows at most
select r.job_id
from wakeful.ready r
where r.owner is not null
order by r.started_at
limit $1
