-- The sinks that are closed, with the hash of the address that was.   $1 names of sinks
select s.sink, s.closed_address
from wakeful.alert_sink s
where s.sink = any ($1::text[]) and s.closed_at is not null
