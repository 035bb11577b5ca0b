-- Lanes that nobody has served for the grace. It starts anew with a fleet: the oldest live instance has been there as long.
-- $1 grace in seconds
select l.lane_id, l.job_type, l.queue
from wakeful.lane l
where not l.closed
  and greatest(l.unserved_since, (select min(i.started_at) from wakeful.instance i where i.state = 'live'))
      + make_interval(secs => $1::double precision) <= clock_timestamp()
  and l.unserved_since is not null
order by l.lane_id
