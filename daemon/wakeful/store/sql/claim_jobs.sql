-- Claim the first jobs of one lane. The attempt is counted there; nothing indexed changes, so the update is HOT.
-- Behind a cursor, what is dead or running at the head of the lane is not read. The lane may have been closed, or its queue
-- paused, since it was found. What most jobs leave empty comes as null, which is cheaper to read; what the lane stands for
-- (type, queue, priority) the claimer knows. date_part gives a double; extract would make a numeric first.
-- $1 lane   $2 at most so many   $3 instance   $4 its incarnation   $5 the claim token   $6 true: commit asynchronously
-- $7 the cursor: the position after which to look   $8 the queue
with hurried as materialized (
    select set_config('synchronous_commit', 'off', true) where $6::boolean
)
select
    r.pos, r.job_id, r.subject, r.payload::text as payload_text, r.attempts, r.max_attempts, r.run_no, r.lost,
    date_part('epoch', r.snoozed_for) as snoozed_s, date_part('epoch', r.deadline) as deadline_s,
    nullif(r.tags, '{}') as tags, nullif(r.meta, '{}')::text as meta_text, date_part('epoch', r.started_at) as claimed_epoch,
    date_part('epoch', r.started_at - r.run_after) as wait_s
from wakeful.claim($1, $2, $3, $4, $5, $7, $8) as r
where (select count(*) from hurried) >= 0
