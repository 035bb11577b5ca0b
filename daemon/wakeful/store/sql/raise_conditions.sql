-- Say that conditions hold: one unresolved alert a key, which a rule and not an event of the outbox opened. Where it is open
-- already, it has held until now, and says what is so now. By which settings of the rules it holds is kept. Gives those that are
-- new.   $1 kind   $2 keys   $3 titles   $4 severities   $5 job types   $6 subjects   $7 details, JSON texts
-- $8 hash of the settings of the rules
with raised as (
    insert into wakeful.alert as a (
        dedupe_key, kind, job_type, fingerprint, title, severity, subject, body, occurrences, first_seen, last_seen, lasting)
    select c.dedupe_key, $1, c.job_type, $1, c.title, c.severity, c.subject, c.body::jsonb, 1, now(), now(), true
    from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[])
        as c (dedupe_key, title, severity, job_type, subject, body)
    order by c.dedupe_key
    on conflict (dedupe_key, lasting) where state <> 'resolved' do update set
        title = excluded.title, body = excluded.body, severity = excluded.severity, job_type = excluded.job_type, last_seen = now()
    returning a.alert_id, a.dedupe_key, a.title, a.subject, a.xmax = 0 as opened
),
holding as (
    insert into wakeful.alert_holder (alert_id, rules)
    select r.alert_id, $8 from raised r order by r.alert_id
    on conflict (alert_id, rules) do update set held_at = now()
)
select r.alert_id, r.dedupe_key, r.title, r.subject, r.opened from raised r
