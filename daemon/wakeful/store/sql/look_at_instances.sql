-- Every instance as a reaper watches it: whether its beat moves, and how many of its leases are past. Locks nothing.
select
    i.instance_id, i.incarnation, i.name, i.state, i.beat_seq,
    extract(epoch from clock_timestamp() - i.beat_at)::double precision as silent_s,
    extract(epoch from i.lease)::double precision as lease_s,
    extract(epoch from clock_timestamp())::double precision as server_s,
    (select count(distinct least(i.lease, t.lease))
     from (select j.lease from wakeful.job_type j union all select interval '30 seconds') as t
     where i.beat_at + least(i.lease, t.lease) < clock_timestamp())::integer as leases_past,
    i.swept_beat, i.swept_past
from wakeful.instance i
order by i.instance_id
