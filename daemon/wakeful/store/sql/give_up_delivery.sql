-- The receiver never accepted it: it is kept as failed and not tried again, unless another lease has begun since.
-- $1 delivery   $2 number of the try   $3 why
update wakeful.alert_delivery d
set state = 'failed', last_answer = $3, leased_by = null, leased_until = null
where d.delivery_id = $1 and d.attempts = $2 and d.state = 'pending'
returning d.delivery_id
