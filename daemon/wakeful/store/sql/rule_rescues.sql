-- Queues with at least $1 unfinished jobs that lost their owner before. Bounded: the first 20,000 rows of each table.
select f.queue as what, f.queue, null::text as job_type, f.queue as subject, count(*)::double precision as value,
       jsonb_build_object('queue', f.queue, 'jobs', count(*), 'lost_twice', count(*) filter (where f.lost > 1))::text as details
from (
    (select r.queue, r.lost from wakeful.ready r limit 20000)
    union all
    (select s.queue, s.lost from wakeful.scheduled s limit 20000)
) as f
where f.lost > 0
group by f.queue
having count(*) >= $1::double precision
