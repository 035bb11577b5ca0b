-- End the alerts of conditions that have not held for a while by the settings of the rules that are ours, and hold by those of no
-- other live instance. One that came back within the hour is given longer, as often as it ended, at most fifteen times.
-- $1 kinds   $2 seconds   $3 hash of our settings of the rules
with stale as materialized (
    select a.alert_id, a.dedupe_key
    from wakeful.alert a
    where a.state <> 'resolved' and a.lasting and a.kind = any ($1::text[])
      and not exists (
          select from wakeful.alert_holder h
          where h.alert_id = a.alert_id and h.rules = $3 and h.held_at >= now() - make_interval(secs => $2::double precision))
    order by a.alert_id
    for no key update skip locked
),
back as materialized (
    select p.dedupe_key, count(*) as times
    from wakeful.alert p
    where p.lasting and p.resolved_at > now() - interval '1 hour' and p.resolved_reason = 'the condition has ended'
      and exists (select from stale s where s.dedupe_key = p.dedupe_key)
    group by p.dedupe_key
),
let_go as (
    delete from wakeful.alert_holder h
    using stale s
    left join back b on b.dedupe_key = s.dedupe_key
    where h.alert_id = s.alert_id
      and h.held_at < now() - make_interval(secs => $2::double precision * least(15, 1 + coalesce(b.times, 0)))
      and (h.rules = $3 or not exists (
          select from wakeful.instance i where i.rules = h.rules and i.state in ('live', 'draining')))
    returning h.alert_id, h.rules
),
over as (
    select s.alert_id
    from stale s
    where not exists (
        select from wakeful.alert_holder h
        where h.alert_id = s.alert_id
          and not exists (select from let_go g where g.alert_id = h.alert_id and g.rules = h.rules))
)
update wakeful.alert a
set state = 'resolved', resolved_at = now(), look_at = now(), resolved_reason = 'the condition has ended'
from over o
where a.alert_id = o.alert_id
returning a.alert_id, a.kind, a.occurrences
