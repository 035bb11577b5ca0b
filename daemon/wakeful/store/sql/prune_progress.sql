-- Remove progress of jobs that no table holds any more, in slices by primary key. One snapshot: a job that moves is seen.
-- $1 job id that the last slice ended at   $2 rows   $3 false: remove nothing, only say where the slice ends
with slice as materialized (
    select p.job_id
    from wakeful.progress p
    where p.job_id > $1
    order by p.job_id
    limit (select $2::bigint)
),
gone as (
    delete from wakeful.progress p
    where $3::boolean and p.job_id = any (array(
        select s.job_id
        from slice s
        left join lateral (
            select true as known
            from (
                select from wakeful.ready r where r.job_id = s.job_id
                union all select from wakeful.scheduled c where c.job_id = s.job_id
                union all select from wakeful.dead d where d.job_id = s.job_id
                union all select from wakeful.finished f where f.job_id = s.job_id
            ) as somewhere
            limit 1
        ) as job on true
        where job.known is null))
    returning p.job_id
)
select
    (select count(*) from slice)::integer as seen,
    (select s.job_id from slice s order by s.job_id desc limit 1) as last_id,
    (select count(*) from gone)::integer as rows
