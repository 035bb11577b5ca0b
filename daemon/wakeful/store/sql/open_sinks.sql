-- Try again with sinks that were closed: they may have come back, or have another address now. Gives those that were.
-- $1 names of sinks
update wakeful.alert_sink s
set closed_at = null, closed_reason = null, closed_address = null, refusals = 0, refused_since = null,
    free_at = least(s.free_at, now())
where s.sink = any (array(
    select c.sink from wakeful.alert_sink c
    where c.sink = any ($1::text[]) and c.closed_at is not null
    order by c.sink
    for no key update skip locked))
returning s.sink
