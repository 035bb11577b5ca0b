-- Remove alerts that were resolved long ago, with their deliveries; gives how many.   $1 age in seconds   $2 rows
with old as (
    select a.alert_id
    from wakeful.alert a
    where a.state = 'resolved' and a.last_seen < now() - make_interval(secs => $1::double precision)
    order by a.alert_id
    limit $2
    for update skip locked
),
gone as (
    delete from wakeful.alert a where a.alert_id = any (array(select o.alert_id from old o)) returning a.alert_id
)
select count(*)::integer as rows
from gone
