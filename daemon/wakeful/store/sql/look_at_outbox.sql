-- Is there anything to do? One cheap statement a turn: what is not folded, and the sinks that have something due.
-- $1 names of the sinks that this process serves
select
    exists (select from wakeful.alert_outbox o where o.alert_id is null) as unfolded,
    array(
        select s.name
        from unnest($1::text[]) as s (name)
        where exists (
            select
            from wakeful.alert_delivery d
            where d.sink = s.name and d.state = 'pending' and d.next_try_at <= now())
    ) as due
