-- End alerts that have had no new occurrence for a while, so that the next one is told anew. What waits to be folded
-- counts as an occurrence: a backlog from an outage of the dispatchers is one alert, not many. Conditions end otherwise.
-- $1 seconds of quiet
with quiet as materialized (
    select a.alert_id
    from wakeful.alert a
    where a.state <> 'resolved'
      and not a.lasting
      and a.last_seen < now() - make_interval(secs => $1)
      and not exists (
          select from wakeful.alert_outbox o where o.alert_id is null and o.dedupe_key = a.dedupe_key)
    limit 1000
    for no key update skip locked
)
update wakeful.alert a
set state = 'resolved', resolved_at = now(), look_at = now(), resolved_reason = 'quiet'
from quiet q
where a.alert_id = q.alert_id
returning a.alert_id, a.kind, a.occurrences
