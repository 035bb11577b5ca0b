-- The receiver did not accept it: try again later, unless another lease has begun since.
-- $1 delivery   $2 number of the try   $3 why   $4 seconds until the next try
update wakeful.alert_delivery d
set next_try_at = clock_timestamp() + make_interval(secs => $4), last_answer = $3, leased_by = null, leased_until = null
where d.delivery_id = $1 and d.attempts = $2 and d.state = 'pending'
returning d.delivery_id
