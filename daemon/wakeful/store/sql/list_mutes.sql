-- What nobody is told of just now.
select m.mute_id, m.kind, m.job_type, m.queue, m.subject, m.until, m.reason, m.muted_by, m.created_at
from wakeful.alert_mute m
where m.until > now() and m.ended_at is null
order by m.until, m.mute_id
