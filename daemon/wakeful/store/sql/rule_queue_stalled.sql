-- Queues in which due jobs wait and nobody takes any: the first job of a lane has been its first for at least $1 seconds. What is
-- first, and since when, is kept in lane_head, of lanes whose jobs have waited for a quarter of that. With the reason, if known.
-- A type that nobody serves is told here only where the rule no_worker does not tell it. What may forbid a lane beside these,
-- as a quota in cool-down, is a reason to be added to the list.
with recursive present (lane_id) as (
    (select r.lane_id from wakeful.ready r order by r.lane_id limit 1)
    union all
    select (select r.lane_id from wakeful.ready r where r.lane_id > p.lane_id order by r.lane_id limit 1)
    from present p
    where p.lane_id is not null
),
heads as materialized (
    select p.lane_id, h.job_id, h.queue, h.job_type, h.run_after, k.job_id as head_before, k.since
    from present p
    cross join lateral (
        select r.job_id, r.queue, r.job_type, r.run_after
        from wakeful.ready r
        where r.lane_id = p.lane_id and coalesce(r.owner < 0, true)
        order by r.pos
        limit 1
    ) as h
    left join wakeful.lane_head k on k.lane_id = p.lane_id
    where p.lane_id is not null and h.run_after <= now() - make_interval(secs => $1::double precision / 4)
),
changed as (
    insert into wakeful.lane_head as k (lane_id, job_id)
    select h.lane_id, h.job_id from heads h where h.head_before is distinct from h.job_id order by h.lane_id
    on conflict (lane_id) do update set job_id = excluded.job_id, since = now()
),
moved as (
    delete from wakeful.lane_head g
    where g.lane_id = any (array(
        select o.lane_id from wakeful.lane_head o
        where not exists (select from heads h where h.lane_id = o.lane_id)
        for update skip locked))
),
stalled as materialized (
    select h.queue, h.job_type, min(h.run_after) as due, min(case when h.head_before = h.job_id then h.since else now() end) as since,
           bool_or(coalesce(l.closed, false)) as closed
    from heads h
    left join wakeful.lane l on l.lane_id = h.lane_id
    where h.run_after <= now() - make_interval(secs => $1::double precision)
    group by h.queue, h.job_type
)
select s.queue || ':' || s.job_type as what, s.queue, s.job_type, s.queue as subject,
       extract(epoch from now() - s.since)::double precision as value,
       jsonb_build_object(
           'queue', s.queue, 'oldest_due_seconds', round(extract(epoch from now() - s.due)),
           'reason', case
               when q.paused_at is not null then 'the queue is paused' || coalesce(': ' || q.reason, '')
               when s.closed then 'its lane is closed'
               when not served.here then 'no live instance serves the type'
               when not exists (
                   select from wakeful.instance i
                   where i.state = 'live' and (i.every_type or i.serves ? s.job_type) and i.queues && array['*', s.queue])
                   then 'no instance that serves the type serves this queue'
               when not exists (
                   select from wakeful.instance i
                   where i.state = 'live' and (i.every_type or i.serves ? s.job_type) and i.queues && array['*', s.queue]
                     and i.free_workers is distinct from 0)
                   then 'all workers are busy with other jobs'
               else 'nothing here says why'
           end)::text as details
from stalled s
cross join lateral (
    select exists (
        select from wakeful.instance i where i.state = 'live' and (i.every_type or i.serves ? s.job_type)) as here
) as served
left join wakeful.queue q on q.name = s.queue
where s.since <= now() - make_interval(secs => $1::double precision)
  and (served.here or q.paused_at is not null
       or not exists (
           select from wakeful.alert a where a.dedupe_key = 'no_worker:' || s.job_type and a.state <> 'resolved')
       or exists (
           select from wakeful.alert a
           where a.dedupe_key = 'queue_stalled:' || s.queue || ':' || s.job_type and a.state <> 'resolved'))
order by value desc
