-- What the metrics tell of the whole database. Bounded: counting stops at $1 jobs a lane, $1 a table.   $1 cap
with recursive present (lane_id) as (
    (select r.lane_id from wakeful.ready r order by r.lane_id limit 1)
    union all
    select (select r.lane_id from wakeful.ready r where r.lane_id > p.lane_id order by r.lane_id limit 1)
    from present p
    where p.lane_id is not null
),
lanes as (
    select seen.queue, seen.waiting, seen.running, head.due_s
    from present p
    cross join lateral (
        select min(s.queue) as queue, count(*) filter (where s.owner is null) as waiting, count(s.owner) as running
        from (select r.queue, r.owner from wakeful.ready r where r.lane_id = p.lane_id order by r.pos limit (select $1::bigint)) as s
    ) as seen
    left join lateral (
        select extract(epoch from clock_timestamp() - r.run_after) as due_s
        from wakeful.ready r
        where r.lane_id = p.lane_id and coalesce(r.owner < 0, true)  -- nobody: without statistics, see claim_jobs.sql
        order by r.pos
        limit 1
    ) as head on true
    where p.lane_id is not null
)
select 'queue_jobs' as gauge, l.queue, 'PENDING' as label, sum(l.waiting)::double precision as value from lanes l group by l.queue
union all
select 'queue_jobs', l.queue, 'RUNNING', sum(l.running)::double precision from lanes l group by l.queue
union all
select 'queue_jobs', s.queue, 'SCHEDULED', count(*)::double precision
from (select c.queue from wakeful.scheduled c limit $1) as s group by s.queue
union all
select 'queue_jobs', d.queue, 'DEAD', count(*)::double precision
from (select e.queue from wakeful.dead e limit $1) as d group by d.queue
union all
select 'queue_oldest_due_seconds', l.queue, null, max(l.due_s)::double precision
from lanes l where l.due_s is not null group by l.queue
union all
select 'instances', null, i.state, count(*)::double precision from wakeful.instance i group by i.state
union all
select 'alerts_open', null, a.kind, count(*)::double precision
from (select o.kind from wakeful.alert o where o.state = 'open' limit $1) as a group by a.kind
union all
select 'outbox_pending', null, null, count(*)::double precision
from (select from wakeful.alert_delivery d where d.state = 'pending' limit $1) as pending
union all
select 'outbox_oldest_seconds', null, null, extract(epoch from clock_timestamp() - min(d.created_at))::double precision
from wakeful.alert_delivery d where d.state = 'pending' having min(d.created_at) is not null
union all
select 'outbox_sink_failing_seconds', null, f.sink, extract(epoch from clock_timestamp() - min(f.since))::double precision
from (
    (select d.sink, d.created_at as since from wakeful.alert_delivery d
     where d.state = 'pending' and d.attempts > 0 and d.last_answer is not null limit $1)
    union all
    select s.sink, s.closed_at from wakeful.alert_sink s where s.closed_at is not null
) as f
group by f.sink
union all
select 'ready_dead_rows', null, null, t.n_dead_tup::double precision
from pg_stat_all_tables t where t.relid = 'wakeful.ready'::regclass
union all
select 'database_oldest_snapshot_seconds', null, null, extract(epoch from clock_timestamp() - min(a.xact_start))::double precision
from pg_stat_activity a
where a.datname = current_database() and a.backend_xmin is not null and a.pid <> pg_backend_pid()
having min(a.xact_start) is not null
