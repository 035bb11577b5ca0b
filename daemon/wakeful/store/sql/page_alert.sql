-- What the page of an alert shows: of its details the error's first line only; its latest occurrences and messages as JSON text;
-- the mute that holds longest of those that fit it.   $1 alert   $2 occurrences and messages at most
select a.alert_id, a.kind, a.severity, a.state, a.title, a.subject, a.job_type, a.job_id, a.body ->> 'queue' as queue,
       a.occurrences, a.first_seen, a.last_seen, a.acknowledged_at, a.acknowledged_by, a.resolved_at, a.resolved_reason,
       left(split_part(coalesce(a.body ->> 'last_error', a.body ->> 'error', ''), E'\n', 1), 4000) as error,
       coalesce((
           select jsonb_agg(jsonb_build_object('at', o.created_at, 'job_id', o.job_id, 'subject', o.subject, 'title', o.title)
                            order by o.outbox_id desc)
           from (
               select * from wakeful.alert_outbox l where l.alert_id = a.alert_id order by l.outbox_id desc limit $2
           ) as o), '[]')::text as latest,
       coalesce((
           select jsonb_agg(jsonb_build_object('at', d.created_at, 'sink', d.sink, 'message', d.message, 'state', d.state)
                            order by d.created_at desc, d.sink)
           from (
               select * from wakeful.alert_delivery m where m.alert_id = a.alert_id order by m.created_at desc limit $2
           ) as d), '[]')::text as told,
       q.mute_id, q.until as muted_until, q.muted_by
from wakeful.alert a
left join lateral (
    select m.mute_id, m.until, m.muted_by
    from wakeful.alert_mute m
    where m.until > now() and m.ended_at is null
      and (m.kind is null or m.kind = a.kind)
      and (m.job_type is null or coalesce(m.job_type = a.job_type, false))
      and (m.queue is null or coalesce(m.queue = a.body ->> 'queue', false))
      and (m.subject is null or coalesce(m.subject = a.subject, false))
    order by m.until desc
    limit 1
) as q on true
where a.alert_id = $1
