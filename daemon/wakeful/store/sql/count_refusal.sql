-- The address of a sink has refused once more, whatever it was sent; when it has done so often enough, and for long enough, it
-- is closed as one that said that it is gone.   $1 sink   $2 what it said   $3 hash of the address   $4 how often   $5 seconds
update wakeful.alert_sink s
set refusals = s.refusals + 1,
    refused_since = coalesce(s.refused_since, clock_timestamp()),
    closed_at = n.closed_at,
    closed_reason = case when n.closed_at is not null then $2 end,
    closed_address = case when n.closed_at is not null then $3 end
from (
    select c.sink, case when c.refusals + 1 >= $4::integer
                             and c.refused_since <= clock_timestamp() - make_interval(secs => $5::double precision)
                        then clock_timestamp() end as closed_at
    from wakeful.alert_sink c
    where c.sink = $1 and c.closed_at is null
    for no key update skip locked
) as n
where s.sink = n.sink
returning s.closed_at is not null as closed
