-- Every other end of an attempt: failed, snoozed, handed back, discarded. Fenced and never waiting, like finish_jobs, and
-- joined as there.
-- $1 lane   $2 positions   $3 tokens   $4 verbs   $5 reasons   $6 entries for the error history, JSON text
-- $7 delays in seconds   $8 how often a job may lose its owner
select d.claim, d.job_id, d.status, d.delay_s
from (
    select array_agg(row (g.job, i.verb, i.reason, i.entry::jsonb, make_interval(secs => i.delay_s), i.claim)::wakeful.departure) as departures
    from (
        select t as job, t.pos, t.claim from wakeful.take_out($1, $2, $3, free_keys => false) as t
    ) as g
    full join unnest($2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::double precision[])
        as i (pos, claim, verb, reason, entry, delay_s)
        on i.pos = g.pos and i.claim = g.claim
    where coalesce(g.pos is not null, false)
) as departing
cross join lateral wakeful.depart(departing.departures, $8) as d
