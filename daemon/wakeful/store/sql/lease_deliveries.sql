-- Take what is due for one sink, the longest due first. Nobody else sends it before the lease is over; the try is
-- counted now, so that its number is the token by which this lease is known.
-- $1 sink   $2 at most   $3 instance   $4 length of the lease in seconds
with due as materialized (
    select d.delivery_id
    from wakeful.alert_delivery d
    where d.sink = $1 and d.state = 'pending' and d.next_try_at <= now()
    order by d.next_try_at
    limit $2
    for no key update skip locked
)
update wakeful.alert_delivery d
set attempts = d.attempts + 1,
    leased_by = $3,
    leased_until = clock_timestamp() + make_interval(secs => $4),
    next_try_at = clock_timestamp() + make_interval(secs => $4)
from due, wakeful.alert a
where d.delivery_id = due.delivery_id and a.alert_id = d.alert_id
returning d.delivery_id, d.alert_id, d.attempts, d.body, a.kind
