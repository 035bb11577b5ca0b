-- Is there anything to do? One cheap statement a turn: what is not folded, whether an alert is to be looked at, the sinks that
-- have something due and may be sent to, and the seconds until any of it is due next.
-- $1 names of the sinks that this process serves
with sinks as materialized (
    select n.name, s.free_at
    from unnest($1::text[]) as n (name)
    left join wakeful.alert_sink s on s.sink = n.name
    where s.closed_at is null
),
dues as materialized (
    select s.name, s.free_at, exists (
        select from wakeful.alert_delivery d where d.sink = s.name and d.state = 'pending' and d.next_try_at <= now()) as due
    from sinks s
)
select
    exists (select from wakeful.alert_outbox o where o.alert_id is null) as unfolded,
    exists (select from wakeful.alert a where a.look_at <= now()) as looking,
    array(select d.name from dues d where d.due and coalesce(d.free_at <= now(), true)) as due,
    (
        select extract(epoch from min(next.at) - now())::double precision
        from (
            select d.free_at as at from dues d where d.due and d.free_at > now()
            union all
            select greatest(t.next_try_at, s.free_at)
            from sinks s
            cross join lateral (
                select d.next_try_at
                from wakeful.alert_delivery d
                where d.sink = s.name and d.state = 'pending' and d.next_try_at > now()
                order by d.next_try_at
                limit 1
            ) as t
            union all
            (select a.look_at from wakeful.alert a where a.look_at > now() order by a.look_at limit 1)
        ) as next
    ) as next_s
