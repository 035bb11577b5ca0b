-- Instances whose event loop stood still for at least $1 seconds at a stretch within the last five minutes, as they report it
-- with their beat. Two of one name are one subject: the worse is told.
select distinct on (i.name) i.name as what, null::text as queue, i.blocked_by as job_type, i.name as subject, i.blocked_for as value,
       jsonb_build_object('instance', i.name, 'instance_id', i.instance_id, 'host', i.host, 'pid', i.pid,
                          'seconds', round(i.blocked_for::numeric, 1))::text as details
from wakeful.instance i
where i.state in ('live', 'draining') and i.blocked_for >= $1::double precision
order by i.name, i.blocked_for desc
