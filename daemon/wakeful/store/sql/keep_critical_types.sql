-- Let people hear of the first failed attempt of all job types that the settings of live instances name, and of no others.
-- Gives how many changed.
with meant as materialized (
    select distinct t.job_type
    from wakeful.instance i
    cross join lateral unnest(i.critical_types) as t (job_type)
    where i.state in ('live', 'draining')
),
gone as (
    delete from wakeful.critical_type c
    where c.job_type = any (array(
        select o.job_type from wakeful.critical_type o
        where not exists (select from meant m where m.job_type = o.job_type)
        for update skip locked))
    returning c.job_type
),
come as (
    insert into wakeful.critical_type (job_type)
    select m.job_type from meant m
    where not exists (select from wakeful.critical_type c where c.job_type = m.job_type)
    order by m.job_type
    on conflict (job_type) do nothing
    returning job_type
)
select ((select count(*) from gone) + (select count(*) from come))::integer as changed
