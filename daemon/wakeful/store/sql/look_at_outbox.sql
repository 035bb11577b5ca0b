-- Is there anything to do? One cheap statement a turn: what is not folded, the sinks that have something due, and the seconds
-- until the next try of anything after that.   $1 names of the sinks that this process serves
select
    exists (select from wakeful.alert_outbox o where o.alert_id is null) as unfolded,
    array(
        select s.name
        from unnest($1::text[]) as s (name)
        where exists (
            select
            from wakeful.alert_delivery d
            where d.sink = s.name and d.state = 'pending' and d.next_try_at <= now())
    ) as due,
    (
        select extract(epoch from min(next.try_at) - now())::double precision
        from unnest($1::text[]) as s (name)
        cross join lateral (
            select d.next_try_at as try_at
            from wakeful.alert_delivery d
            where d.sink = s.name and d.state = 'pending' and d.next_try_at > now()
            order by d.next_try_at
            limit 1
        ) as next
    ) as next_s
