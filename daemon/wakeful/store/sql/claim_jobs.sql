-- Claim the first jobs of one lane. The attempt is counted here; nothing indexed changes, so the update is HOT.
-- Proof against statistics, which are always wrong here: the limit and "nobody owns it" are written so that none can make
-- the planner gather the whole lane and sort it; the rows are then found by their ids.
-- Behind a cursor, what is dead or running at the head of the lane is not read. The lane may have been closed, or its queue
-- paused, since it was found. What most jobs leave empty comes as null, which is cheaper to read.
-- $1 lane   $2 at most so many   $3 instance   $4 its incarnation   $5 the claim token   $6 true: commit asynchronously
-- $7 the cursor: the position after which to look   $8 the queue
with hurried as materialized (
    select set_config('synchronous_commit', 'off', true) where $6::boolean
),
due as materialized (
    select r.ctid as row_id
    from wakeful.ready r
    where r.lane_id = $1
      and r.pos > $7
      and coalesce(r.owner < 0, true)
      and exists (select from wakeful.instance i where i.instance_id = $3 and i.incarnation = $4 and i.state = 'live')
      and not exists (select from wakeful.queue q where q.name = $8 and q.paused_at is not null)
      and not exists (select from wakeful.lane l where l.lane_id = $1 and l.closed)
      and (select count(*) from hurried) >= 0
    order by r.lane_id, r.pos
    limit (select $2::bigint)
    for no key update of r skip locked
)
update wakeful.ready r
set owner = $3,
    claim = $5,
    attempts = r.attempts + (r.attempts < 2147483647)::integer,
    run_no = r.run_no + (r.run_no < 2147483647)::integer,
    started_at = clock_timestamp(),
    deadline_at = clock_timestamp() + r.deadline
where r.lane_id = $1 and r.ctid = any (array(select d.row_id from due d))
returning
    r.pos, r.job_id, r.job_type, r.queue, r.priority, r.subject, r.payload::text as payload_text, r.attempts, r.max_attempts,
    r.run_no, r.lost, coalesce(extract(epoch from r.snoozed_for), 0)::double precision as snoozed_s,
    extract(epoch from r.deadline)::double precision as deadline_s, nullif(r.tags, '{}') as tags,
    nullif(r.meta, '{}')::text as meta_text, r.created_at, r.started_at,
    extract(epoch from r.started_at - r.run_after)::double precision as wait_s
