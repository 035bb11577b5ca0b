-- Queues in which due jobs wait and nobody takes any: the first job of a lane has been its first for longer than $1 seconds.
-- What is first, and since when, is kept in lane_head. Types that nobody serves are another rule's. With the reason, if known.
with recursive present (lane_id) as (
    (select r.lane_id from wakeful.ready r order by r.lane_id limit 1)
    union all
    select (select r.lane_id from wakeful.ready r where r.lane_id > p.lane_id order by r.lane_id limit 1)
    from present p
    where p.lane_id is not null
),
heads as materialized (
    select p.lane_id, h.job_id, h.queue, h.job_type, h.run_after
    from present p
    cross join lateral (
        select r.job_id, r.queue, r.job_type, r.run_after
        from wakeful.ready r
        where r.lane_id = p.lane_id and coalesce(r.owner < 0, true)
        order by r.pos
        limit 1
    ) as h
    where p.lane_id is not null and h.run_after < now() - make_interval(secs => $1::double precision)
),
kept as (
    insert into wakeful.lane_head as k (lane_id, job_id)
    select h.lane_id, h.job_id from heads h order by h.lane_id
    on conflict (lane_id) do update
    set job_id = excluded.job_id, since = case when k.job_id = excluded.job_id then k.since else now() end
    returning k.lane_id, k.since
),
moved as (
    delete from wakeful.lane_head g where not exists (select from heads h where h.lane_id = g.lane_id)
),
stalled as (
    select h.queue, h.job_type, min(h.run_after) as due, min(k.since) as since, bool_or(coalesce(l.closed, false)) as closed
    from heads h
    join kept k on k.lane_id = h.lane_id
    left join wakeful.lane l on l.lane_id = h.lane_id
    where exists (select from wakeful.instance i where i.state = 'live' and (i.every_type or i.serves ? h.job_type))
    group by h.queue, h.job_type
)
select s.queue || ':' || s.job_type as what, s.queue, s.job_type, s.queue as subject,
       extract(epoch from now() - s.since)::double precision as value,
       jsonb_build_object(
           'queue', s.queue, 'oldest_due_seconds', round(extract(epoch from now() - s.due)),
           'reason', case
               when q.paused_at is not null then 'the queue is paused' || coalesce(': ' || q.reason, '')
               when s.closed then 'its lane is closed'
               when not exists (
                   select from wakeful.instance i
                   where i.state = 'live' and (i.every_type or i.serves ? s.job_type) and i.queues && array['*', s.queue])
                   then 'no instance that serves the type serves this queue'
               when exists (select from wakeful.ready r where r.owner > 0) then 'all workers are busy with other jobs'
               else 'nothing here says why'
           end)::text as details
from stalled s
left join wakeful.queue q on q.name = s.queue
