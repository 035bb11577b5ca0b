-- Fail waiting jobs of a lane whose job type nobody serves: each is one failed attempt, without an owner and a token (I9).
-- Looked at again here; never waits for a row.   $1 lane   $2 positions
with lane as materialized (
    select l.job_type
    from wakeful.lane l
    where l.lane_id = $1 and l.unserved_since is not null and not l.closed
      and not exists (
          select from wakeful.instance i where i.state = 'live' and (i.every_type or i.serves ? l.job_type))
      and not exists (select from wakeful.queue q where q.name = l.queue and q.paused_at is not null)
),
due as materialized (
    select r.ctid as row_id, r.dedupe_key, r.job_id
    from wakeful.ready r
    where r.lane_id = $1 and r.pos = any ($2::bigint[]) and coalesce(r.owner < 0, true) and exists (select from lane)
    order by r.lane_id, r.pos
    for update of r skip locked
),
held as materialized (
    select d.row_id
    from due d
    left join lateral (
        select true as locked
        from wakeful.dedupe k
        where k.key = d.dedupe_key and k.job_id = d.job_id
        for update skip locked
    ) as k on true
    left join lateral (
        select true as locked
        from wakeful.dedupe o
        where k.locked is null and o.key = d.dedupe_key and o.job_id = d.job_id
        limit 1
    ) as elsewhere on true
    where elsewhere.locked is null
),
gone as (
    delete from wakeful.ready r
    where r.lane_id = $1 and r.ctid = any (array(select h.row_id from held h))
    returning r as job
)
select d.job_id, d.status
from (
    select array_agg(row (
        g.job, 'unserved', 'UnknownJobType: ' || said.message,
        jsonb_build_object('type', 'UnknownJobType', 'message', said.message), wakeful.backoff((g.job).attempts + 1), null
    )::wakeful.departure) as departures
    from gone g
    cross join lateral (select 'no live instance serves job type "' || (g.job).job_type || '"' as message) as said
) as departing
cross join lateral wakeful.depart(departing.departures) as d
