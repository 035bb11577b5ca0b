-- Remove old events that were folded into an alert, from the oldest on; gives how many.   $1 age in seconds   $2 rows
with oldest as (
    select o.outbox_id, o.alert_id, o.created_at
    from wakeful.alert_outbox o
    order by o.outbox_id
    limit (select $2::bigint)
),
gone as (
    delete from wakeful.alert_outbox o
    where o.outbox_id = any (array(
        select e.outbox_id
        from oldest e
        where e.alert_id is not null and e.created_at < now() - make_interval(secs => $1::double precision)))
    returning o.outbox_id
)
select count(*)::integer as rows
from gone
