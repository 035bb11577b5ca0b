-- Remove alerts that were resolved long ago, with their deliveries; gives how many. Digests and mutes, too.  $1 age in seconds   $2 rows
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
),
digests as (
    delete from wakeful.alert_delivery d
    where d.alert_id is null and d.state <> 'pending'
      and d.created_at < now() - make_interval(secs => $1::double precision)
),
mutes as (
    delete from wakeful.alert_mute m where least(m.until, m.ended_at) < now() - make_interval(secs => $1::double precision)
)
select count(*)::integer as rows
from gone
