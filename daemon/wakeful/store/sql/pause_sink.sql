-- Send nothing to a sink for a while, as its receiver asked for it. Waits for who makes messages of it: a pause that is left
-- out would be a storm of refusals.   $1 sink   $2 seconds
update wakeful.alert_sink s
set free_at = greatest(s.free_at, clock_timestamp() + make_interval(secs => $2))
where s.sink = $1
returning s.sink
