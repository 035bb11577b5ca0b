-- Make messages. The id and the text of each stay the same at every try.
-- $1 alerts (null: a digest of several)   $2 sinks   $3 types of message   $4 texts   $5 the alerts of a digest, as arrays in text
insert into wakeful.alert_delivery (delivery_id, alert_id, sink, message, body, tells)
select wakeful.uuid7(), o.alert_id, o.sink, o.message, o.body, nullif(o.tells, '{}')::bigint[]
from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[]) as o (alert_id, sink, message, body, tells)
on conflict (alert_id, sink) where state = 'pending' do nothing
returning sink
