-- One message a sink for each alert that was just opened. Its id and its text stay the same at every try.
-- $1 alerts   $2 texts, one an alert   $3 names of sinks
insert into wakeful.alert_delivery (delivery_id, alert_id, sink, body)
select wakeful.uuid7(), o.alert_id, s.name, o.body
from unnest($1::bigint[], $2::text[]) as o (alert_id, body)
cross join unnest($3::text[]) as s (name)
on conflict on constraint alert_delivery_once do nothing
