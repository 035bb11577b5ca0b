-- These messages are told in a digest instead.   $1 deliveries
update wakeful.alert_delivery d
set state = 'merged', leased_by = null, leased_until = null
where d.delivery_id = any ($1::uuid[]) and d.state = 'pending'
returning d.delivery_id
