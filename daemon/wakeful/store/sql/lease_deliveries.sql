-- Take what is due for one sink, the longest due first. Nobody else sends it before the lease is over; the try is
-- counted now, so that its number is the token by which this lease is known. A sink with a pace takes one message at a
-- time, whoever sends it. One that is closed, or asked for a pause, takes none.
-- $1 sink   $2 at most   $3 instance   $4 length of the lease in seconds   $5 pace: least seconds between sends, 0 for none
with turn as (
    update wakeful.alert_sink s
    set free_at = clock_timestamp() + make_interval(secs => $5::double precision)
    where $5::double precision > 0
      and s.sink = any (array(
          select f.sink
          from wakeful.alert_sink f
          where f.sink = $1 and f.closed_at is null and f.free_at <= now()
            and exists (
                select from wakeful.alert_delivery d where d.sink = $1 and d.state = 'pending' and d.next_try_at <= now())
          for no key update skip locked))
    returning s.sink
),
due as materialized (
    select d.delivery_id
    from wakeful.alert_delivery d
    where d.sink = $1 and d.state = 'pending' and d.next_try_at <= now()
      and case when $5::double precision > 0
          then exists (select from turn)
          else not exists (
              select from wakeful.alert_sink s where s.sink = $1 and (s.closed_at is not null or s.free_at > now()))
          end
    order by d.next_try_at, d.delivery_id
    limit case when $5::double precision > 0 then 1 else $2 end
    for no key update skip locked
)
update wakeful.alert_delivery d
set attempts = d.attempts + 1,
    leased_by = $3,
    leased_until = clock_timestamp() + make_interval(secs => $4),
    next_try_at = clock_timestamp() + make_interval(secs => $4)
from due
where d.delivery_id = due.delivery_id
returning d.delivery_id, d.alert_id, d.attempts, d.excused, d.bare, d.body, d.message,
          (select a.kind from wakeful.alert a where a.alert_id = d.alert_id) as kind
