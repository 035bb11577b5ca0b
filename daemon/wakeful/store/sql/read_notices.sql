-- What sinks have been told of alerts, and whether a message is under way, alone or as one of a digest. A pair without either has
-- no row.   $1 alerts   $2 names of sinks
with told_together as materialized (
    select distinct g.sink, t.alert_id
    from wakeful.alert_delivery g
    cross join lateral unnest(g.tells) as t (alert_id)
    where g.alert_id is null and g.state = 'pending' and g.sink = any ($2)
)
select a.alert_id, s.sink, n.told_as, n.told_at, coalesce(n.occurrences, 0) as occurrences, n.held_until,
       d.delivery_id is not null or t.alert_id is not null as pending
from unnest($1::bigint[]) as a (alert_id)
cross join unnest($2::text[]) as s (sink)
left join wakeful.alert_notice n on n.alert_id = a.alert_id and n.sink = s.sink
left join wakeful.alert_delivery d on d.alert_id = a.alert_id and d.sink = s.sink and d.state = 'pending'
left join told_together t on t.alert_id = a.alert_id and t.sink = s.sink
where n.alert_id is not null or d.delivery_id is not null or t.alert_id is not null
