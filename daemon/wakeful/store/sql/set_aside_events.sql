-- Fold the rows of one key that can't be folded as they are: into an alert that says so and nothing of what stands in them, so
-- that they are counted and people hear of them.   $1 key   $2 rows at most   $3 first_wait in seconds
with batch as materialized (
    select o.outbox_id, o.kind, o.job_type, o.job_id, o.created_at
    from wakeful.alert_outbox o
    where o.alert_id is null and o.dedupe_key = $1
    order by o.outbox_id
    limit $2
    for no key update skip locked
),
folded as (
    insert into wakeful.alert as a (
        dedupe_key, kind, job_type, title, severity, body, job_id, occurrences, first_seen, last_seen, look_at)
    select
        'unreadable:' || md5($1), left(min(b.kind), 100), left(min(b.job_type), 200),
        left(min(b.kind), 100) || ': what happened could not be read', 'error', '{}', (array_agg(b.job_id order by b.outbox_id desc))[1],
        count(*), min(b.created_at), max(b.created_at), now() + make_interval(secs => $3::double precision)
    from batch b
    having count(*) > 0
    on conflict (dedupe_key, lasting) where state <> 'resolved' do update set
        occurrences = a.occurrences + excluded.occurrences,
        first_seen = least(a.first_seen, excluded.first_seen),
        last_seen = greatest(a.last_seen, excluded.last_seen),
        job_id = excluded.job_id,
        look_at = now()
    returning a.alert_id, a.dedupe_key, a.kind, a.title, a.xmax = 0 as opened
),
marked as (
    update wakeful.alert_outbox o
    set alert_id = f.alert_id
    from folded f, batch b
    where o.outbox_id = b.outbox_id
)
select f.alert_id, f.dedupe_key, f.kind, f.title, null::text as subject, f.opened, (select count(*) from batch) as added
from folded f
