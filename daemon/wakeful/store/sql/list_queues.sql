-- Every queue that is known from jobs, declarations or operators, with what lies in it. Counting stops at a cap, so that a
-- backlog of a million costs no more than one of ten thousand.
-- $1 the cap
with recursive present (lane_id) as (
    (select r.lane_id from wakeful.ready r order by r.lane_id limit 1)
    union all
    select (select r.lane_id from wakeful.ready r where r.lane_id > p.lane_id order by r.lane_id limit 1)
    from present p
    where p.lane_id is not null
),
due as (
    select one.queue, count(*) filter (where one.owner is null) as waiting, count(*) filter (where one.owner is not null) as running,
           min(one.run_after) filter (where one.owner is null) as oldest
    from present p
    cross join lateral (
        select r.queue, r.owner, r.run_after from wakeful.ready r where r.lane_id = p.lane_id order by r.pos limit $1
    ) as one
    where p.lane_id is not null
    group by one.queue
),
later as (
    select one.queue, count(*) as scheduled from (select s.queue from wakeful.scheduled s limit $1) as one group by one.queue
),
died as (
    select one.queue, count(*) as dead from (select d.queue from wakeful.dead d limit $1) as one group by one.queue
),
known as (
    select name as queue from wakeful.queue
    union select queue from wakeful.lane
    union select queue from wakeful.job_type
    union select queue from due
    union select queue from later
    union select queue from died
)
select
    k.queue, q.paused_at, q.paused_by, q.reason, coalesce(d.waiting, 0) as waiting, coalesce(d.running, 0) as running,
    coalesce(l.scheduled, 0) as scheduled, coalesce(x.dead, 0) as dead,
    greatest(0, extract(epoch from clock_timestamp() - d.oldest))::double precision as oldest_s
from known k
left join wakeful.queue q on q.name = k.queue
left join due d on d.queue = k.queue
left join later l on l.queue = k.queue
left join died x on x.queue = k.queue
order by k.queue
