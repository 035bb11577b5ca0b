-- Every instance with what it serves, and for how many seconds its longest lease lasts without another beat (or did not).
select
    i.instance_id, i.name, i.host, i.pid, i.state, i.queues, i.every_type, array(select jsonb_object_keys(i.serves)) as job_types,
    extract(epoch from i.beat_at + i.lease - clock_timestamp())::double precision as lease_left_s
from wakeful.instance i
order by i.instance_id
