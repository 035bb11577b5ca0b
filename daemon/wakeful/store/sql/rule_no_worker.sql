-- Job types with waiting jobs that no live instance serves, for at least $1 seconds: a row for each queue that they wait in.
select l.job_type as what, l.queue, l.job_type, null::text as subject,
       extract(epoch from now() - min(l.unserved_since))::double precision as value,
       jsonb_build_object('queue', l.queue, 'unserved_since', min(l.unserved_since))::text as details
from wakeful.lane l
where l.unserved_since <= now() - make_interval(secs => $1::double precision) and not l.closed
  and exists (select from wakeful.ready r where r.lane_id = l.lane_id)
group by l.job_type, l.queue
