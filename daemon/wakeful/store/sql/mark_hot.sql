-- Say that these lanes are polled for the next two seconds, so that enqueue need not notify. Skips what is locked, and what
-- was marked less than a second ago. A lane that nobody has folded in yet gets its row here. A lane that was cold is told to
-- all, since whoever is idle has to look when its mark runs out. Commits asynchronously: a lost mark costs notifications.
-- $1 lanes   $2 queues   $3 priorities   $4 job types   $5 limit keys   $6 whether they are of suspects
with hurried as materialized (
    select set_config('synchronous_commit', 'off', true)
),
item as (
    select *
    from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::boolean[])
         as i (lane_id, queue, priority, job_type, limit_key, suspect)
),
cooling as (
    select l.lane_id, l.hot_until < clock_timestamp() as cold
    from wakeful.lane l
    where l.lane_id = any ($1::bigint[]) and l.hot_until < clock_timestamp() + interval '1 second'
    order by l.lane_id
    for no key update skip locked
),
folded as (
    insert into wakeful.lane (lane_id, queue, priority, job_type, limit_key, suspect, hot_until)
    select i.lane_id, i.queue, i.priority, i.job_type, i.limit_key, i.suspect, clock_timestamp() + interval '2 seconds'
    from item i
    where not exists (select from wakeful.lane l where l.lane_id = i.lane_id)
    order by i.lane_id
    on conflict do nothing
    returning lane_id
),
marked as (
    update wakeful.lane l
    set hot_until = clock_timestamp() + interval '2 seconds'
    from cooling c
    where l.lane_id = c.lane_id
    returning l.lane_id, c.cold
),
turned as (
    select m.lane_id from marked m where m.cold
    union all
    select f.lane_id from folded f
)
select pg_notify('wakeful', t.lane_id::text) as told
from turned t
where (select count(*) from hurried) >= 0
