-- The ids of one page of jobs, the oldest first, to do something with each of them. Null means no such filter.
-- $1 statuses   $2 types   $3 queues   $4 subject   $5 older than, seconds   $6 newer than, seconds   $7 after this job
-- $8 rows at most
select j.job_id
from wakeful.jobs j
where ($1::text[] is null or j.status = any ($1))
  and ($2::text[] is null or j.job_type = any ($2))
  and ($3::text[] is null or j.queue = any ($3))
  and ($4::text is null or j.subject = $4)
  and ($5::double precision is null or j.created_at < now() - make_interval(secs => $5))
  and ($6::double precision is null or j.created_at > now() - make_interval(secs => $6))
  and ($7::uuid is null or j.job_id > $7)
order by j.job_id
limit $8
