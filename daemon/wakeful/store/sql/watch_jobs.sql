-- Where these jobs are now, with their steps.   $1 jobs
select
    j.job_id, j.job_type, j.status, j.subject, j.attempts, j.max_attempts, j.run_no, j.progress::text as progress,
    left(j.last_error, 1000) as last_error, j.run_after
from wakeful.jobs j
where j.job_id = any ($1::uuid[])
order by j.job_id
