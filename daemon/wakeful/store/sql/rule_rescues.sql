-- Queues of which at least $1 jobs were taken back within ten minutes from instances that died or stalled; and, told where
-- settings name it, each job type of one. What is older is removed; what somebody else is removing is left to them.
with old as (
    delete from wakeful.rescue r
    where r.rescue_id = any (array(
        select o.rescue_id from wakeful.rescue o where o.rescued_at < now() - interval '10 minutes' for update skip locked))
)
select concat_ws(':', r.queue, r.job_type) as what, r.queue, r.job_type, r.queue as subject, sum(r.jobs)::double precision as value,
       jsonb_build_object('queue', r.queue, 'jobs', sum(r.jobs), 'first', min(r.rescued_at), 'last', max(r.rescued_at))::text as details
from wakeful.rescue r
where r.rescued_at >= now() - interval '10 minutes'
group by grouping sets ((r.queue), (r.queue, r.job_type))
having sum(r.jobs) >= $1::double precision
