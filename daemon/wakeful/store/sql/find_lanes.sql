-- The lanes with something to claim, each by its first claimable job: one non-locking statement, never one a lane.
-- "Nobody owns it" is written as in claim_jobs: no statistics make the planner gather and sort a lane.
-- $1 the job types that this instance serves (null: every type)   $2 its queues (null: every queue)
with recursive present (lane_id) as (
    (select r.lane_id from wakeful.ready r order by r.lane_id limit 1)
    union all
    select (select r.lane_id from wakeful.ready r where r.lane_id > p.lane_id order by r.lane_id limit 1)
    from present p
    where p.lane_id is not null
)
select
    p.lane_id, head.pos, head.job_type, head.queue, head.priority, head.limit_key, head.lost >= 2 as suspect,
    extract(epoch from clock_timestamp() - head.run_after)::double precision as waiting_s
from present p
cross join lateral (
    select r.pos, r.job_type, r.queue, r.priority, r.limit_key, r.lost, r.run_after
    from wakeful.ready r
    where r.lane_id = p.lane_id and coalesce(r.owner < 0, true)
    order by r.pos
    limit 1
) as head
left join wakeful.queue q on q.name = head.queue
left join wakeful.lane l on l.lane_id = p.lane_id
where p.lane_id is not null
  and q.paused_at is null
  and l.closed is not true
  and ($1::text[] is null or head.job_type = any ($1))
  and ($2::text[] is null or head.queue = any ($2))
