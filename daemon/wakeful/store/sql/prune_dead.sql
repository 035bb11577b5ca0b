-- Remove dead letters past their retention, with their progress and log; gives how many.
-- $1 age in seconds   $2 rows   $3 jobs to leave: the database refuses to remove them
with old as (
    select d.job_id
    from wakeful.dead d
    where d.finished_at < now() - make_interval(secs => $1::double precision) and d.job_id <> all ($3::uuid[])
    order by d.finished_at
    limit (select $2::bigint)
    for update skip locked
),
gone as (
    delete from wakeful.dead d
    where d.job_id = any (array(select o.job_id from old o))
    returning d.job_id
),
without_progress as (
    delete from wakeful.progress p where p.job_id = any (array(select g.job_id from gone g))
),
without_log as (
    delete from wakeful.job_log l where l.job_id = any (array(select g.job_id from gone g))
)
select count(*)::integer as rows
from gone
