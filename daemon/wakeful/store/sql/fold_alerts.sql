-- Fold outbox rows into alerts: one unresolved alert a key, counted. Each row is counted once, by whoever locked it.
-- Never waits for a row that somebody else has locked: such a key is left, with all its rows, and named in the answer.
-- It waits only for an alert that is being opened elsewhere at this moment; the caller limits that wait.
-- An alert is looked at `first_wait` after it was opened, so that a burst is one message, and again with each new occurrence.
-- $1 rows at most   $2 keys to leave out   $3 keys to take (null: every one)   $4 first_wait in seconds
with batch as materialized (
    select o.*
    from wakeful.alert_outbox o
    where o.alert_id is null
      and o.dedupe_key <> all ($2::text[])
      and ($3::text[] is null or o.dedupe_key = any ($3))
    order by o.outbox_id
    limit $1
    for no key update skip locked
),
standing as materialized (
    select a.dedupe_key
    from wakeful.alert a
    where a.dedupe_key = any (array(select b.dedupe_key from batch b)) and a.state <> 'resolved' and not a.lasting
),
locked as materialized (
    select a.dedupe_key
    from wakeful.alert a
    where a.dedupe_key = any (array(select b.dedupe_key from batch b)) and a.state <> 'resolved' and not a.lasting
    order by a.dedupe_key
    for no key update skip locked
),
held as materialized (
    select s.dedupe_key from standing s
    except
    select l.dedupe_key from locked l
),
counted as materialized (
    select b.dedupe_key, count(*) as occurrences, min(b.created_at) as first_seen, max(b.created_at) as last_seen,
           max(b.outbox_id) as latest,
           case when min(b.subject) = max(b.subject) and count(b.subject) = count(*) then min(b.subject) end as subject
    from batch b
    where not exists (select from held h where h.dedupe_key = b.dedupe_key)
    group by b.dedupe_key
),
folded as (
    insert into wakeful.alert as a (
        dedupe_key, kind, job_type, fingerprint, title, severity, subject, body, job_id, occurrences, first_seen, last_seen,
        look_at)
    select
        c.dedupe_key, b.kind, b.job_type, b.fingerprint, b.title, b.severity, c.subject, b.body, b.job_id, c.occurrences,
        c.first_seen, c.last_seen, now() + make_interval(secs => $4::double precision)
    from counted c
    join batch b on b.outbox_id = c.latest
    order by c.dedupe_key
    on conflict (dedupe_key, lasting) where state <> 'resolved' do update set
        occurrences = a.occurrences + excluded.occurrences,
        subject = case when a.subject = excluded.subject then a.subject end,
        -- One that could not be written is looked at when its time comes, however often it happens.
        look_at = case when a.untold > 0 then coalesce(a.look_at, now() + interval '10 minutes') else now() end,
        first_seen = least(a.first_seen, excluded.first_seen),
        last_seen = greatest(a.last_seen, excluded.last_seen),
        fingerprint = case when excluded.last_seen >= a.last_seen then excluded.fingerprint else a.fingerprint end,
        title = case when excluded.last_seen >= a.last_seen then excluded.title else a.title end,
        severity = case when excluded.last_seen >= a.last_seen then excluded.severity else a.severity end,
        body = case when excluded.last_seen >= a.last_seen then excluded.body else a.body end,
        job_id = case when excluded.last_seen >= a.last_seen then excluded.job_id else a.job_id end
    returning a.alert_id, a.dedupe_key, a.kind, a.title, a.subject, a.xmax = 0 as opened  -- a row that was there before bears the lock that this statement took on it
),
marked as (
    update wakeful.alert_outbox o
    set alert_id = f.alert_id
    from batch b
    join folded f on f.dedupe_key = b.dedupe_key
    where o.outbox_id = b.outbox_id
)
select
    f.dedupe_key, false as held, f.opened, c.occurrences as added, f.alert_id, f.kind, f.title, f.subject
from folded f
join counted c on c.dedupe_key = f.dedupe_key
union all
select h.dedupe_key, true, false, 0, null, null, null, null
from held h
