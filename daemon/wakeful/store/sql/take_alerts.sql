-- Take the alerts of which there may be something to say now, and keep others from it until the transaction ends. What
-- somebody else has locked is left. muted_until: until when nobody is to hear of it; queue: where its details name one.
-- $1 alerts at most
with looked as materialized (
    select a.alert_id, a.dedupe_key, a.kind, a.job_type, a.fingerprint, a.title, a.severity, a.subject, a.job_id, a.occurrences,
           a.first_seen, a.last_seen, a.lasting, a.state, a.opened_at, a.resolved_at, a.resolved_reason,
           a.acknowledged_at is not null as acknowledged, a.untold, a.body ->> 'queue' as queue
    from wakeful.alert a
    where a.look_at <= now()
    order by a.look_at, a.alert_id
    limit $1
    for no key update skip locked
)
select l.*, t.job_owner, m.muted_until, now() as now
from looked l
left join wakeful.job_type t on t.job_type = l.job_type
cross join lateral (
    select max(m.until) as muted_until
    from wakeful.alert_mute m
    where m.until > now() and m.ended_at is null
      and coalesce(m.kind = l.kind, m.kind is null)
      and (m.job_type is null or coalesce(m.job_type = l.job_type, false))
      and (m.queue is null or coalesce(m.queue = l.queue, false))
      and (m.subject is null or coalesce(m.subject = l.subject, false))
) as m
