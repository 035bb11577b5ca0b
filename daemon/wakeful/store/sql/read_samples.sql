-- The details of alerts, their latest occurrences, a few of each, and what the latest job was about; whoever hides secrets
-- cuts the texts. A type that nobody has declared has nobody who says what is secret: then no payload.
-- $1 alerts  $2 occurrences of each at most  $3 whether with payloads
select a.alert_id, a.body::text as body_text, s.samples::text as samples_text, p.payload_text
from wakeful.alert a
cross join lateral (
    select coalesce(jsonb_agg(jsonb_build_object(
               'job_id', o.job_id, 'subject', o.subject,
               'error', split_part(coalesce(o.body ->> 'last_error', o.body ->> 'error', o.title), E'\n', 1))
               order by o.outbox_id desc), '[]') as samples
    from (
        select l.outbox_id, l.job_id, l.subject, l.body, l.title
        from wakeful.alert_outbox l
        where l.alert_id = a.alert_id
        order by l.outbox_id desc
        limit $2
    ) as o
) as s
left join lateral (
    select left(j.payload::text, 4000) as payload_text
    from wakeful.jobs j
    where $3::boolean and j.job_id = a.job_id and exists (select from wakeful.job_type t where t.job_type = j.job_type)
) as p on true
where a.alert_id = any ($1::bigint[])
