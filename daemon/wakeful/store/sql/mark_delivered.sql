-- The receiver accepted it. Said without a look at the lease: what has arrived is not sent again, whoever holds it now.
-- $1 delivery   $2 what the receiver said
update wakeful.alert_delivery d
set state = 'delivered', delivered_at = clock_timestamp(), last_answer = $2, leased_by = null, leased_until = null
where d.delivery_id = $1 and d.state = 'pending'
returning d.delivery_id
