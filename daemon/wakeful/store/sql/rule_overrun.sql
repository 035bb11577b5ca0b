-- Jobs that have run for longer than $1 seconds and for more than three times what all but a twentieth of the latest runs of
-- their type took. Types of which fewer than twenty runs are known are left out. Bounded: 1000 jobs a lane, 20,000 runs.
with recursive present (lane_id) as (
    (select r.lane_id from wakeful.ready r order by r.lane_id limit 1)
    union all
    select (select r.lane_id from wakeful.ready r where r.lane_id > p.lane_id order by r.lane_id limit 1)
    from present p
    where p.lane_id is not null
),
long as materialized (
    select h.job_id, h.job_type, h.queue, h.subject, extract(epoch from now() - h.started_at) as ran
    from present p
    cross join lateral (
        select f.*
        from (
            select r.job_id, r.job_type, r.queue, r.subject, r.started_at, r.owner
            from wakeful.ready r where r.lane_id = p.lane_id order by r.pos limit 1000
        ) as f
        where f.owner > 0 and f.started_at < now() - make_interval(secs => $1::double precision)
    ) as h
    where p.lane_id is not null
),
usual as materialized (
    select f.job_type, percentile_cont(0.95) within group (order by extract(epoch from f.finished_at - f.started_at)) as seconds
    from (
        select e.job_type, e.started_at, e.finished_at
        from wakeful.finished e
        where exists (select from long) and e.status = 'DONE' and e.started_at is not null
        limit 20000
    ) as f
    where f.job_type in (select l.job_type from long l)
    group by f.job_type
    having count(*) >= 20
)
select l.job_id::text as what, l.queue, l.job_type, l.subject, l.ran::double precision as value,
       jsonb_build_object('queue', l.queue, 'job_id', l.job_id, 'usual_seconds', round(u.seconds::numeric, 1))::text as details
from long l
join usual u on u.job_type = l.job_type and l.ran > 3 * u.seconds
order by l.ran desc
limit 50
