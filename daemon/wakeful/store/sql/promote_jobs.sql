-- Move jobs of one lane that are due from scheduled to ready. Each takes its position after its row was deleted, so that
-- the transaction has its id before (I7). Never waits for a row.   $1 lane   $2 job ids
with held as materialized (
    select s.job_id
    from wakeful.scheduled s
    where s.lane_id = $1 and s.job_id = any ($2::uuid[]) and s.run_after <= clock_timestamp()
    for update skip locked
),
gone as (
    delete from wakeful.scheduled s
    where s.lane_id = $1 and s.job_id = any (array(select h.job_id from held h))
    returning s.*
),
promoted as (
    insert into wakeful.ready (
        lane_id, pos, job_id, job_type, queue, priority, subject, dedupe_key, payload, max_attempts, deadline, tags, meta,
        group_key, limit_key, run_after, attempts, run_no, handed_back, snoozed, snoozed_for, lost, last_error, errors, created_at,
        moved_by)
    select
        g.lane_id, nextval('wakeful.position'), g.job_id, g.job_type, g.queue, g.priority, g.subject, g.dedupe_key, g.payload,
        g.max_attempts, g.deadline, g.tags, g.meta, g.group_key, g.limit_key, g.run_after, g.attempts, g.run_no, g.handed_back,
        g.snoozed, g.snoozed_for, g.lost, g.last_error, g.errors, g.created_at, g.moved_by
    from gone g
    order by g.run_after, g.job_id
    returning job_id
)
select count(*)::integer as jobs, wakeful.notify_lanes(case when count(*) > 0 then array[$1::bigint] end) as told
from promoted
