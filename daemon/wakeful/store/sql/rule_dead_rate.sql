-- Queues in which at least $1 jobs died within ten minutes. Counting stops at the latest 20,000 events.
select d.queue as what, d.queue, null::text as job_type, d.queue as subject, count(*)::double precision as value,
       jsonb_build_object('queue', d.queue, 'deaths', count(*), 'job_types', count(distinct d.job_type))::text as details
from (
    select o.body ->> 'queue' as queue, o.job_type, o.kind, o.created_at
    from wakeful.alert_outbox o
    order by o.outbox_id desc
    limit 20000
) as d
where d.kind = 'job_dead' and d.created_at > now() - interval '10 minutes' and d.queue is not null
group by d.queue
having count(*) >= $1::double precision
