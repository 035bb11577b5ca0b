-- Take the messages that have waited too long for their sinks, and are not being sent now.
-- $1 names of sinks   $2 seconds   $3 at most
select d.delivery_id, d.sink, d.body, case when d.alert_id is null then coalesce(d.tells, '{}') else array[d.alert_id] end as tells
from wakeful.alert_delivery d
where d.state = 'pending'
  and d.sink = any ($1::text[])
  and d.created_at < now() - make_interval(secs => $2::double precision)
  and (d.leased_until is null or d.leased_until < now())
order by d.created_at
limit $3
for no key update skip locked
