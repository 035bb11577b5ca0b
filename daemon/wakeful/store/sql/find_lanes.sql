-- The lanes with something to claim, each by its first claimable job: one non-locking statement, never one a lane.
-- In known lanes it looks behind their cursors only, and it looks for others only between them: what is dead at the head of
-- a known lane is never read. "Nobody owns it" is written as in claim_jobs: no statistics make the planner sort a lane.
-- A last row, with no lane, says for how long some lane that was looked at is still marked hot: nobody is notified about it, so
-- whoever is idle looks again then. All lanes are walked through for that, far fewer pages than the look itself.
-- $1 the job types that this instance serves (null: every type)   $2 its queues (null: every queue)
-- $3 known lanes, in order   $4 the positions after which to look in them   $5 true: look for other lanes, too
with recursive step (at, known, lane_id) as (
    select (-9223372036854775808)::bigint, 1, null::bigint
    where $5::boolean
    union all
    select coalesce(found.lane_id, ($3::bigint[])[s.known]), s.known + (found.lane_id is null)::integer, found.lane_id
    from step s
    left join lateral (
        select r.lane_id
        from wakeful.ready r
        where r.lane_id > s.at and r.lane_id < coalesce(($3::bigint[])[s.known], 9223372036854775807)
        order by r.lane_id
        limit 1
    ) as found on true
    where s.at is not null
),
present as (
    select k.lane_id, k.after
    from unnest($3::bigint[], $4::bigint[]) as k (lane_id, after)
    union all
    select s.lane_id, 0
    from step s
    where s.lane_id is not null
)
select
    p.lane_id, head.pos, head.job_type, head.queue, head.priority, head.limit_key, head.lost >= 2 as suspect,
    extract(epoch from clock_timestamp() - head.run_after)::double precision as waiting_s,
    ($1::text[] is null or head.job_type = any ($1)) and ($2::text[] is null or head.queue = any ($2)) as served
from present p
cross join lateral (
    select r.pos, r.job_type, r.queue, r.priority, r.limit_key, r.lost, r.run_after
    from wakeful.ready r
    where r.lane_id = p.lane_id and r.pos > p.after and coalesce(r.owner < 0, true)
    order by r.pos
    limit 1
) as head
where (select q.paused_at from wakeful.queue q where q.name = head.queue) is null
  and (select l.closed from wakeful.lane l where l.lane_id = p.lane_id) is not true
union all
select null, null, null, null, null, null, null, extract(epoch from max(m.hot_until) - clock_timestamp())::double precision, null
from (
    select l.hot_until
    from wakeful.lane l
    where $5::boolean and l.hot_until > clock_timestamp()
    union all
    select l.hot_until
    from wakeful.lane l
    where not $5::boolean and l.lane_id = any ($3::bigint[]) and l.hot_until > clock_timestamp()
) as m
having count(*) > 0
