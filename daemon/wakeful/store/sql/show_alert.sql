-- Everything about one alert: its columns, and its messages as JSON text, the latest first.   $1 alert
select a.alert_id, a.kind, a.severity, a.state, a.title, a.subject, a.job_type, a.job_id, a.dedupe_key, a.fingerprint,
       a.occurrences, a.lasting, a.first_seen, a.last_seen, a.opened_at, a.acknowledged_at, a.acknowledged_by, a.resolved_at,
       a.resolved_reason, a.look_at, a.body::text as details,
       coalesce((
           select jsonb_agg(jsonb_build_object(
                      'sink', d.sink, 'message', d.message, 'state', d.state, 'attempts', d.attempts, 'bare', d.bare,
                      'delivery_id', d.delivery_id, 'created_at', d.created_at,
                      'delivered_at', d.delivered_at, 'next_try_at', case when d.state = 'pending' then d.next_try_at end,
                      'last_answer', d.last_answer) order by d.created_at desc, d.sink)
           from (
               select * from wakeful.alert_delivery m where m.alert_id = a.alert_id order by m.created_at desc limit 50
           ) as d), '[]')::text as messages
from wakeful.alert a
where a.alert_id = $1
