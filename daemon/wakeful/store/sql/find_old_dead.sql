-- The oldest dead letter that is past its retention.   $1 age in seconds   $2 jobs to leave out
select d.job_id
from wakeful.dead d
where d.finished_at < now() - make_interval(secs => $1::double precision) and d.job_id <> all ($2::uuid[])
order by d.finished_at
limit 1
