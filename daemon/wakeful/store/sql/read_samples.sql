-- The details of alerts, and their latest occurrences, a few of each; whoever hides secrets cuts the texts.   $1 alerts   $2 occurrences of each at most
select a.alert_id, a.body::text as body_text, s.samples::text as samples_text
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
where a.alert_id = any ($1::bigint[])
