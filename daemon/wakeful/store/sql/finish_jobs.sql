-- DONE: move jobs of one lane from ready to finished, each only where row and token match. Never waits: a row (or a
-- dedupe key) that somebody else has locked is left for the next flush, and is missing from the answer.
-- $1 lane   $2 positions   $3 tokens   $4 results, JSON text   $5 degraded, JSON array text or null   $6 keep in history
with item as (
    select *
    from unnest($2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::boolean[]) as i (pos, claim, result, degraded, keep)
),
held as materialized (
    select r.row_id, i.pos, i.claim, i.result, i.degraded, i.keep
    from item i
    cross join lateral (
        select r.ctid as row_id, r.dedupe_key, r.job_id
        from wakeful.ready r
        where r.lane_id = $1 and r.pos = i.pos and r.claim = i.claim
        limit 1
        for update skip locked
    ) as r
    left join lateral (
        select true as locked
        from wakeful.dedupe k
        where k.key = r.dedupe_key and k.job_id = r.job_id
        for update skip locked
    ) as k on true
    left join lateral (
        select true as locked
        from wakeful.dedupe d
        where k.locked is null and d.key = r.dedupe_key and d.job_id = r.job_id
        limit 1
    ) as elsewhere on true
    where elsewhere.locked is null
),
gone as (
    delete from wakeful.ready r
    where r.lane_id = $1 and r.ctid = any (array(select h.row_id from held h))
    returning r.*
),
freed as (
    delete from wakeful.dedupe k
    using gone g
    where k.key = g.dedupe_key and k.job_id = g.job_id
),
kept as (
    insert into wakeful.finished (
        slot, lane_id, job_id, job_type, queue, priority, subject, dedupe_key, payload, max_attempts, deadline, tags, meta,
        group_key, limit_key, run_after, attempts, run_no, handed_back, snoozed, snoozed_for, lost, last_error, errors, created_at, moved_by,
        status, result, degraded, instance_id, started_at, finished_at)
    select
        (select wakeful.finished_slot(now())), g.lane_id, g.job_id, g.job_type, g.queue, g.priority, g.subject, g.dedupe_key,
        g.payload, g.max_attempts, g.deadline, g.tags, g.meta, g.group_key, g.limit_key, g.run_after, g.attempts, g.run_no,
        g.handed_back, g.snoozed, g.snoozed_for, g.lost, g.last_error, g.errors, g.created_at, g.claim, 'DONE', h.result::jsonb,
        case when h.degraded is null then '{}' else array(select jsonb_array_elements_text(h.degraded::jsonb)) end,
        g.owner, g.started_at, clock_timestamp()
    from gone g
    join held h on h.pos = g.pos
    where h.keep
)
select g.pos, g.claim
from gone g
