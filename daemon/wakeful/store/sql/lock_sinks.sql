-- Take the sinks for which messages are made in this transaction, so that their windows are counted by one at a time. One
-- that somebody else has locked is left. waiting: messages that it has not taken yet, counted up to a hundred.
-- $1 names of sinks
with held as materialized (
    select s.sink, s.closed_at, s.window_from, s.window_cards
    from wakeful.alert_sink s
    where s.sink = any ($1::text[])
    order by s.sink
    for no key update skip locked
)
select h.sink, h.window_from, h.window_cards, w.waiting, now() as now
from held h
cross join lateral (
    select count(*)::integer as waiting
    from (select from wakeful.alert_delivery d where d.sink = h.sink and d.state = 'pending' limit 100) as first
) as w
