-- Fold lanes that producers met for the first time into lane; gives how many rows were read.   $1 at most so many
with seen as (
    delete from wakeful.lane_seen s
    where s.ctid = any (array(select t.ctid from wakeful.lane_seen t limit $1 for update skip locked))
    returning s.*
),
folded as (
    insert into wakeful.lane (lane_id, queue, priority, job_type, limit_key, suspect)
    select distinct on (s.lane_id) s.lane_id, s.queue, s.priority, s.job_type, s.limit_key, s.suspect
    from seen s
    order by s.lane_id
    on conflict (lane_id) do nothing
)
select count(*)::integer as rows
from seen
