-- Its details are what can't be sent: let the next try be a text without them, unless another lease has begun since. Its id
-- stays.   $1 delivery   $2 number of the try   $3 why   $4 text   $5 seconds until the next try
update wakeful.alert_delivery d
set body = $4, bare = true, excused = d.excused + 1, next_try_at = clock_timestamp() + make_interval(secs => $5),
    last_answer = $3, leased_by = null, leased_until = null
where d.delivery_id = $1 and d.attempts = $2 and d.state = 'pending' and not d.bare
returning d.delivery_id
