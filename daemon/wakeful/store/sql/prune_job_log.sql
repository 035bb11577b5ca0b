-- Remove log lines of jobs that no table holds any more, in slices by primary key, job after job.
-- $1 job id that the last slice ended at   $2 jobs   $3 false: remove nothing, only say where the slice ends
with recursive logged (job_id, n) as (
    (select l.job_id, 1 from wakeful.job_log l where l.job_id > $1 order by l.job_id limit 1)
    union all
    select (select l.job_id from wakeful.job_log l where l.job_id > g.job_id order by l.job_id limit 1), g.n + 1
    from logged g
    where g.job_id is not null and g.n < $2
),
slice as materialized (
    select g.job_id from logged g where g.job_id is not null
),
gone as (
    delete from wakeful.job_log l
    where $3::boolean and l.job_id = any (array(
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
    returning l.job_id
)
select
    (select count(*) from slice)::integer as seen,
    (select s.job_id from slice s order by s.job_id desc limit 1) as last_id,
    (select count(*) from gone)::integer as rows
