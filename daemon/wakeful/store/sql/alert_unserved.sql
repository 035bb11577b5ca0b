-- Tell people of a lane that nobody serves and that is left alone, once until the alert is resolved.   $1 lane
select wakeful.alert(
    kind => 'queue_stalled',
    title => left('no live instance serves job type "' || l.job_type || '": its jobs wait in queue ' || l.queue, 500),
    dedupe_key => 'queue_stalled:unserved:' || l.job_type,
    severity => 'warning',
    body => jsonb_build_object('queue', l.queue, 'unserved_since', l.unserved_since),
    job_type => l.job_type) as outbox_id
from wakeful.lane l
where l.lane_id = $1
  and not exists (
      select from wakeful.alert a where a.dedupe_key = 'queue_stalled:unserved:' || l.job_type and a.state <> 'resolved')
  and not exists (
      select from wakeful.alert_outbox o where o.dedupe_key = 'queue_stalled:unserved:' || l.job_type and o.alert_id is null)
