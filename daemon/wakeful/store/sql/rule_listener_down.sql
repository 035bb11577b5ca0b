-- Live instances whose listening connection has heard nothing for at least $1 seconds, as they report it with their beat, while
-- the database answers them. Two of one name are one subject: the worse is told.
select distinct on (i.name) i.name as what, null::text as queue, null::text as job_type, i.name as subject, i.deaf_for as value,
       jsonb_build_object('instance', i.name, 'instance_id', i.instance_id, 'host', i.host, 'pid', i.pid)::text as details
from wakeful.instance i
where i.state = 'live' and i.deaf_for >= $1::double precision
order by i.name, i.deaf_for desc
