-- Queues in which at least $1 jobs died within ten minutes; and, told where settings name it, each job type of one. Counting
-- stops at the latest 20,000 events.
select concat_ws(':', d.queue, d.job_type) as what, d.queue, d.job_type, d.queue as subject, count(*)::double precision as value,
       jsonb_build_object('queue', d.queue, 'deaths', count(*), 'job_types', count(distinct d.type))::text as details
from (
    select o.body ->> 'queue' as queue, o.job_type, o.job_type as type, o.kind, o.created_at
    from wakeful.alert_outbox o
    order by o.outbox_id desc
    limit 20000
) as d
where d.kind = 'job_dead' and d.created_at > now() - interval '10 minutes' and d.queue is not null
group by grouping sets ((d.queue), (d.queue, d.job_type))
having count(*) >= $1::double precision and (grouping(d.job_type) = 1 or d.job_type is not null)
