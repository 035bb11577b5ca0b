-- Let people hear of the first failed attempt of these job types, and of no others. Gives how many changed.   $1 job types
with gone as (
    delete from wakeful.critical_type c where c.job_type <> all ($1::text[]) returning c.job_type
),
come as (
    insert into wakeful.critical_type (job_type)
    select distinct t.job_type from unnest($1::text[]) as t (job_type) order by t.job_type
    on conflict (job_type) do nothing
    returning job_type
)
select ((select count(*) from gone) + (select count(*) from come))::integer as changed
