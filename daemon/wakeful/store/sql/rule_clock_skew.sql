-- Instances whose clock differs from the database's by at least $1 seconds, as they report it with their beat. Two of one name
-- are one subject: the worse is told.
select distinct on (i.name) i.name as what, null::text as queue, null::text as job_type, i.name as subject,
       abs(i.clock_ahead) as value,
       jsonb_build_object('instance', i.name, 'instance_id', i.instance_id, 'host', i.host, 'pid', i.pid,
                          'seconds_ahead', round(i.clock_ahead::numeric, 1))::text as details
from wakeful.instance i
where i.state in ('live', 'draining') and abs(i.clock_ahead) >= $1::double precision
order by i.name, abs(i.clock_ahead) desc
