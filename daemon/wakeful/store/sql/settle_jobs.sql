-- Every other end of an attempt: failed, snoozed, handed back, discarded. Fenced and never waiting, like finish_jobs.
-- $1 lane   $2 positions   $3 tokens   $4 verbs   $5 reasons   $6 entries for the error history, JSON text
-- $7 delays in seconds   $8 how often a job may lose its owner
with item as (
    select *
    from unnest($2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::double precision[])
         as i (pos, claim, verb, reason, entry, delay_s)
),
held as materialized (
    select r.row_id, i.*
    from item i
    cross join lateral (
        select r.ctid as row_id, r.dedupe_key, r.job_id
        from wakeful.ready r
        where r.lane_id = $1 and r.pos = i.pos and r.claim = i.claim
        limit 1
        for update skip locked
    ) as r
    left join lateral (
        select true as locked
        from wakeful.dedupe k
        where k.key = r.dedupe_key and k.job_id = r.job_id
        for update skip locked
    ) as k on true
    left join lateral (
        select true as locked
        from wakeful.dedupe d
        where k.locked is null and d.key = r.dedupe_key and d.job_id = r.job_id
        limit 1
    ) as elsewhere on true
    where elsewhere.locked is null
),
gone as (
    delete from wakeful.ready r
    where r.lane_id = $1 and r.ctid = any (array(select h.row_id from held h))
    returning r as job
)
select (d.claim) as claim, d.job_id, d.status, d.delay_s
from (
    select array_agg(row (g.job, h.verb, h.reason, h.entry::jsonb, make_interval(secs => h.delay_s), h.claim)::wakeful.departure) as departures
    from gone g
    join held h on h.pos = (g.job).pos
) as departing
cross join lateral wakeful.depart(departing.departures, $8) as d
