-- Remove some jobs of a measurement wherever they are; gives how many. Found by key: its lanes, and ids since it began.
-- $1 name of the queue and type   $2 id that none of its jobs comes before   $3 at most so many of each table
with gone_ready as (
    delete from wakeful.ready r
    using (select o.lane_id, o.pos from wakeful.ready o
           where o.lane_id in (wakeful.lane_id($1, 'normal', $1, null, false), wakeful.lane_id($1, 'normal', $1, null, true))
           limit $3::bigint) as d
    where r.lane_id = d.lane_id and r.pos = d.pos
    returning 1
),
gone_scheduled as (
    delete from wakeful.scheduled s where s.job_id >= $2 and s.job_type = $1 returning 1
),
gone_dead as (
    delete from wakeful.dead d where d.job_id >= $2 and d.job_type = $1 returning 1
),
gone_finished as (
    delete from wakeful.finished f
    using (select o.job_id, o.slot from wakeful.finished o
           where o.job_id >= $2 and o.job_type = $1 and o.queue = $1
           limit $3::bigint) as d
    where f.job_id = d.job_id and f.slot = d.slot
    returning 1
)
select (select count(*) from gone_ready) + (select count(*) from gone_scheduled) + (select count(*) from gone_dead)
     + (select count(*) from gone_finished) as gone
