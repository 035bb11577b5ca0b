-- Count the cards made for sinks in their windows.   $1 sinks   $2 beginnings of the windows   $3 cards in them
update wakeful.alert_sink s
set window_from = c.window_from, window_cards = c.cards
from unnest($1::text[], $2::timestamptz[], $3::integer[]) as c (sink, window_from, cards)
where s.sink = c.sink
returning s.sink
