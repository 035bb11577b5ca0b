-- The sinks for which several messages have waited too long.   $1 names of sinks   $2 seconds
select n.name as sink
from unnest($1::text[]) as n (name)
where exists (
    select from wakeful.alert_delivery d
    where d.sink = n.name and d.state = 'pending' and d.created_at < now() - make_interval(secs => $2::double precision)
    offset 1)
