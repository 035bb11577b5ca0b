-- What the metrics tell of the whole database. Bounded: counting stops at $1 jobs a lane, $1 a table; beyond the $2 queues
-- and types with most jobs, the rest is one.   $1 cap, $2 names
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
),
deaths as (
    select d.queue, d.finished_at > now() - interval '10 minutes' as just_now
    from wakeful.dead d
    where d.finished_at > now() - interval '24 hours'
    order by d.finished_at desc
    limit $1
),
jobs (queue, state, value) as (
    select l.queue, 'ready', sum(l.waiting) from lanes l group by l.queue
    union all
    select l.queue, 'running', sum(l.running) from lanes l group by l.queue
    union all
    select s.queue, 'scheduled', count(*) from (select c.queue from wakeful.scheduled c limit $1) as s group by s.queue
    union all
    select d.queue, 'dead', count(*) from (select e.queue from wakeful.dead e limit $1) as d group by d.queue
),
names as (
    select q.queue
    from (
        select j.queue, sum(j.value) as jobs from jobs j group by j.queue
        union all
        select u.name, 0 from wakeful.queue u where u.paused_at is not null
    ) as q
    group by q.queue
    order by sum(q.jobs) desc, q.queue
    limit $2
),
named (queue, name) as (
    select q.queue, case when n.queue is null then 'other' else q.queue end
    from (select j.queue from jobs j union select u.name from wakeful.queue u where u.paused_at is not null) as q
    left join names n on n.queue = q.queue
)
select 'queue_jobs' as gauge, n.name as first_label, j.state as second_label, sum(j.value)::double precision as value
from jobs j join named n on n.queue = j.queue group by n.name, j.state
union all
select 'queue_oldest_ready_seconds', n.name, null, max(l.due_s)::double precision
from lanes l join named n on n.queue = l.queue where l.due_s is not null group by n.name
union all
select 'queue_paused', n.name, null, 1
from wakeful.queue u join named n on n.queue = u.name where u.paused_at is not null group by n.name
union all
select 'queue_deaths', coalesce(n.name, 'other'), w.name, count(*) filter (where d.just_now or w.name = '24h')::double precision
from deaths d left join named n on n.queue = d.queue cross join (values ('10m'), ('24h')) as w (name)
group by coalesce(n.name, 'other'), w.name
union all
(select 'job_type_info', t.job_type, t.job_owner, 1 from wakeful.job_type t order by t.job_type limit $2)
union all
select 'instances', i.state, null, count(*)::double precision from wakeful.instance i group by i.state
union all
select 'alerts_open', a.kind, null, count(*)::double precision
from (select o.kind from wakeful.alert o where o.state = 'open' limit $1) as a group by a.kind
union all
select 'outbox_pending', null, null, count(*)::double precision
from (select from wakeful.alert_delivery d where d.state = 'pending' limit $1) as pending
union all
select 'outbox_oldest_seconds', null, null, extract(epoch from clock_timestamp() - min(d.created_at))::double precision
from wakeful.alert_delivery d where d.state = 'pending' having min(d.created_at) is not null
union all
select 'outbox_sink_failing_seconds', f.sink, null, extract(epoch from clock_timestamp() - min(f.since))::double precision
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
