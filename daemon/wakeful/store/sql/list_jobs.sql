-- One page of jobs, the newest first: a job id begins with its time. Null means no such filter. The page is found by ids
-- alone, which an index of each table gives in order; only its rows are then looked up whole.
-- $1 statuses   $2 types   $3 queues   $4 subject   $5 older than, seconds   $6 newer than, seconds   $7 after this job
-- $8 rows at most
with page as materialized (
    select j.job_id
    from wakeful.jobs j
    where ($1::text[] is null or j.status = any ($1))
      and ($2::text[] is null or j.job_type = any ($2))
      and ($3::text[] is null or j.queue = any ($3))
      and ($4::text is null or j.subject = $4)
      and ($5::double precision is null or j.created_at < now() - make_interval(secs => $5))
      and ($6::double precision is null or j.created_at > now() - make_interval(secs => $6))
      and ($7::uuid is null or j.job_id < $7)
    order by j.job_id desc
    limit $8
)
select
    j.job_id, j.job_type, j.status, j.queue, j.priority, j.subject, j.dedupe_key, j.attempts, j.max_attempts, j.run_no, j.run_after,
    j.lease_until, j.instance_id, j.degraded, j.tags, j.created_at, j.started_at, j.finished_at,
    left(j.last_error, 1000) as last_error, j.progress::text as progress,
    extract(epoch from now() - j.created_at)::double precision as age_s
from wakeful.jobs j
where j.job_id = any (array(select p.job_id from page p))
order by j.job_id desc
