-- What sinks have been told of alerts, and whether a message is under way. A pair without either has no row.
-- $1 alerts   $2 names of sinks
select a.alert_id, s.sink, n.told_as, n.told_at, coalesce(n.occurrences, 0) as occurrences, n.held_until,
       d.delivery_id is not null as pending
from unnest($1::bigint[]) as a (alert_id)
cross join unnest($2::text[]) as s (sink)
left join wakeful.alert_notice n on n.alert_id = a.alert_id and n.sink = s.sink
left join wakeful.alert_delivery d on d.alert_id = a.alert_id and d.sink = s.sink and d.state = 'pending'
where n.alert_id is not null or d.delivery_id is not null
