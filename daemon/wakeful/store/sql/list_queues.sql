-- Every queue that is known from jobs, declarations or operators, and what lies in it. The statuses are written out, so
-- that the finished jobs are left out by their constraint, and not read.
with counted as (
    select
        j.queue,
        count(*) filter (where j.status = 'PENDING' and j.run_after <= now()) as waiting,
        count(*) filter (where j.status = 'RUNNING') as running,
        count(*) filter (where j.status = 'PENDING' and j.run_after > now()) as scheduled,
        count(*) filter (where j.status = 'DEAD') as dead,
        min(j.run_after) filter (where j.status = 'PENDING' and j.run_after <= now()) as oldest
    from wakeful.jobs j
    where j.status in ('PENDING', 'RUNNING', 'DEAD')
    group by j.queue
),
known as (
    select name as queue from wakeful.queue
    union select queue from wakeful.lane
    union select queue from wakeful.job_type
    union select queue from counted
)
select
    k.queue, q.paused_at, q.paused_by, q.reason, coalesce(c.waiting, 0) as waiting, coalesce(c.running, 0) as running,
    coalesce(c.scheduled, 0) as scheduled, coalesce(c.dead, 0) as dead,
    extract(epoch from now() - c.oldest)::double precision as oldest_s
from known k
left join wakeful.queue q on q.name = k.queue
left join counted c on c.queue = k.queue
order by k.queue
