-- The jobs that run now, the longest running first.   $1 rows at most
select j.job_id
from wakeful.jobs j
where j.status = 'RUNNING'
order by j.started_at
limit $1
