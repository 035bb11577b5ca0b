-- Everything about one job.   $1 job
select
    j.job_id, j.job_type, j.status, j.queue, j.priority, j.subject, j.dedupe_key, j.payload::text as payload, j.attempts,
    j.max_attempts, j.run_no, j.handed_back, j.snoozed, j.lost, j.run_after, j.lease_until, j.last_error, j.errors::text as errors,
    j.result::text as result, j.degraded, j.progress::text as progress, j.tags, j.meta::text as meta, j.instance_id,
    i.name as instance_name, i.host as instance_host, i.pid as instance_pid, j.created_at, j.started_at, j.finished_at,
    extract(epoch from now() - j.created_at)::double precision as age_s
from wakeful.jobs j
left join wakeful.instance i on i.instance_id = j.instance_id
where j.job_id = $1
