-- End the alerts about deaths of which no job is dead any more: each was requeued, or removed. One that died again is another
-- death, which has an event of its own. An alert whose older events are pruned is left, as its jobs are not known. Small alerts
-- first, and no more events than $1 in all are looked at: what is left over is over when it is quiet.
-- $1 events at most
with small as materialized (
    select s.alert_id
    from (
        select a.alert_id, sum(a.occurrences) over (order by a.occurrences, a.alert_id) as events
        from wakeful.alert a
        where a.state <> 'resolved' and a.kind = 'job_dead' and not a.lasting
    ) as s
    where s.events <= $1::bigint
),
gone as materialized (
    select a.alert_id
    from wakeful.alert a
    where a.alert_id = any (array(select s.alert_id from small s)) and a.state <> 'resolved'
      and not exists (
          select from wakeful.alert_outbox o where o.alert_id is null and o.dedupe_key = a.dedupe_key)
      -- For each alert by itself, and no further than the first that is dead: not as a join with every dead letter there is.
      and case
          when (
              select true from wakeful.alert_outbox o
              join wakeful.dead d on d.job_id = o.job_id and d.run_no::text = o.body ->> 'run_no'
              where o.alert_id = a.alert_id
              limit 1) then false
          else a.occurrences = (
              select count(*) from wakeful.alert_outbox o
              where o.alert_id = a.alert_id and o.job_id is not null and o.body ->> 'run_no' is not null)
          end
    limit 1000
    for no key update skip locked
)
update wakeful.alert a
set state = 'resolved', resolved_at = now(), look_at = now(), resolved_reason = 'all of its jobs were requeued or removed'
from gone g
where a.alert_id = g.alert_id
returning a.alert_id, a.kind, a.occurrences
