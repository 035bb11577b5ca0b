-- Alerts, those that are not resolved first, then the latest.
-- $1 states (null: any)   $2 kinds (null: any)   $3 job types (null: any)   $4 at most
select a.alert_id, a.kind, a.severity, a.state, a.title, a.subject, a.job_type, a.dedupe_key, a.occurrences, a.first_seen,
       a.last_seen, a.acknowledged_at, a.acknowledged_by, a.resolved_at, a.resolved_reason,
       extract(epoch from now() - a.last_seen)::double precision as quiet_s
from wakeful.alert a
where ($1::text[] is null or a.state = any ($1)) and ($2::text[] is null or a.kind = any ($2))
  and ($3::text[] is null or a.job_type = any ($3))
order by a.state = 'resolved', a.last_seen desc, a.alert_id desc
limit $4
