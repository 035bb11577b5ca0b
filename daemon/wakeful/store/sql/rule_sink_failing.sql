-- Sinks that take nothing: closed, or messages have been tried in vain for longer than $1 seconds, and none was taken since.
-- One that is in the configuration of no live instance any more takes nothing because nobody sends to it.
select f.sink as what, null::text as queue, null::text as job_type, f.sink as subject,
       extract(epoch from now() - min(f.since))::double precision as value,
       jsonb_build_object('sink', f.sink, 'since', min(f.since), 'waiting', max(f.waiting), 'last_answer', max(f.answer))::text as details
from (
    select d.sink, min(d.created_at) as since, count(*) as waiting, max(d.last_answer) as answer
    from wakeful.alert_delivery d
    where d.state = 'pending' and d.attempts > 0 and d.last_answer is not null
    group by d.sink
    having not exists (
        select from wakeful.alert_delivery t
        where t.sink = d.sink and t.state = 'delivered' and t.delivered_at > now() - make_interval(secs => $1::double precision))
    union all
    select s.sink, s.closed_at, null, s.closed_reason from wakeful.alert_sink s where s.closed_at is not null
    union all
    -- That a message was given up meanwhile is no success: it is over when one is taken.
    select a.subject, (a.body ->> 'since')::timestamptz, null, a.body ->> 'last_answer'
    from wakeful.alert a
    where a.kind = 'sink_failing' and a.lasting and a.state <> 'resolved'
      and exists (
          select from wakeful.alert_delivery g
          where g.sink = a.subject and g.state = 'failed' and g.next_try_at >= a.first_seen)
      and not exists (
          select from wakeful.alert_delivery t
          where t.sink = a.subject and t.state = 'delivered' and t.delivered_at >= a.first_seen)
) as f
where f.since < now() - make_interval(secs => $1::double precision)
  and exists (select from wakeful.instance i where i.state in ('live', 'draining') and f.sink = any (i.sinks))
group by f.sink
