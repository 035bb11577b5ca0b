-- A follow-up job, in the transaction that finishes its parent. $1 type $2 payload, JSON text $3 options, JSON text
select e.job_id, e.created
from jsonb_to_record($3::text::jsonb) as o (
    queue text, priority text, subject text, dedupe_key text, run_after timestamptz, max_attempts integer, deadline interval,
    tags text[], meta jsonb, "group" text, limit_key text)
cross join lateral wakeful.enqueue(
    $1, $2::text::jsonb, o.queue, o.priority, o.subject, o.dedupe_key, o.run_after, o.max_attempts, o.deadline, o.tags, o.meta,
    o."group", o.limit_key) as e
