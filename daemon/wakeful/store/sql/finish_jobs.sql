-- DONE: move jobs of one lane from ready to finished, each only where row and token match. Never waits: a row (or a
-- dedupe key) that somebody else has locked is left for the next flush, and is missing from the answer.
-- In history null stands for what is so of nearly every job; the view puts it back. A full join under a condition that hides
-- from the planner which side is there can be no nested loop: without statistics that compares every job with every other.
-- In the order of the ids, that is of time, the index grows at its end and is split seldom.
-- $1 lane   $2 positions   $3 tokens   $4 results, JSON text (empty: each is null)   $5 degraded, JSON array text or null
-- (empty: none is)   $6 keep in history (empty: each of them)
with gone as materialized (
    select t.* from wakeful.take_out($1, $2, $3, free_keys => true) as t
),
kept as (
    insert into wakeful.finished (
        slot, job_id, job_type, queue, priority, subject, dedupe_key, payload, max_attempts, tags, meta, group_key, limit_key,
        run_after, attempts, run_no, handed_back, snoozed, lost, last_error, errors, created_at, moved_by, status, result, degraded,
        instance_id, started_at, finished_at)
    select
        (select wakeful.finished_slot(now())), g.job_id, g.job_type, g.queue, g.priority, g.subject, g.dedupe_key, g.payload,
        g.max_attempts, nullif(g.tags, '{}'), nullif(g.meta, '{}'), g.group_key, g.limit_key, nullif(g.run_after, g.created_at),
        g.attempts, g.run_no, nullif(g.handed_back, 0), nullif(g.snoozed, 0), nullif(g.lost, 0), g.last_error,
        nullif(g.errors, '[]'), g.created_at, g.claim, 'DONE', coalesce(i.result, 'null')::jsonb,
        case when i.degraded is not null then array(select jsonb_array_elements_text(i.degraded::jsonb)) end,
        g.owner, g.started_at, clock_timestamp()
    from gone g
    full join unnest($2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::boolean[]) as i (pos, claim, result, degraded, keep)
        on i.pos = g.pos and i.claim = g.claim
    where coalesce(g.job_id is not null and i.pos is not null and coalesce(i.keep, true), false)
    order by g.job_id
)
select g.pos, g.claim
from gone g
