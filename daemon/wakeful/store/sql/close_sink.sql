-- Send nothing more to a sink whose receiver said that it is gone: what waits for it is kept.
-- $1 sink   $2 what it said   $3 hash of the address
update wakeful.alert_sink s
set closed_at = clock_timestamp(), closed_reason = $2, closed_address = $3
where s.sink = any (array(
    select c.sink from wakeful.alert_sink c where c.sink = $1 and c.closed_at is null for no key update skip locked))
returning s.sink
