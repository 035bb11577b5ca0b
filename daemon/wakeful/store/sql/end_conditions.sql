-- End the alerts of a rule whose condition has not held for a while.   $1 kind   $2 seconds
with over as materialized (
    select a.alert_id
    from wakeful.alert a
    where a.state <> 'resolved' and a.lasting and a.kind = $1
      and a.last_seen < now() - make_interval(secs => $2::double precision)
    for no key update skip locked
)
update wakeful.alert a
set state = 'resolved', resolved_at = now(), look_at = now(), resolved_reason = 'the condition has ended'
from over o
where a.alert_id = o.alert_id
returning a.alert_id, a.kind, a.occurrences
