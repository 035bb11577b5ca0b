-- The receiver did not accept it: try again later, unless another lease has begun since.
-- $1 delivery   $2 number of the try   $3 why   $4 seconds until the next try   $5 1: the try does not count, 0: it does
update wakeful.alert_delivery d
set next_try_at = clock_timestamp() + make_interval(secs => $4), last_answer = $3, leased_by = null, leased_until = null,
    excused = d.excused + $5::integer
where d.delivery_id = $1 and d.attempts = $2 and d.state = 'pending'
returning d.delivery_id
