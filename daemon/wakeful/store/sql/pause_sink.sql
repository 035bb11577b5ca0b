-- Send nothing to a sink for a while, as its receiver asked for it.   $1 sink   $2 seconds
update wakeful.alert_sink s
set free_at = greatest(s.free_at, clock_timestamp() + make_interval(secs => $2))
where s.sink = any (array(select c.sink from wakeful.alert_sink c where c.sink = $1 for no key update skip locked))
returning s.sink
