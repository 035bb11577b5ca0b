-- Take jobs of one lane back from an owner that has lost them: it is dead or gone, or its lease for their type is past, or
-- they are past twice their deadline. All of it is looked at again here, with the owner's row locked, so that a beat waits
-- and is told the truth by its look-up (I5). Never waits: what somebody else has locked is left for the next pass.
-- $1 lane   $2 positions   $3 owner   $4 the beat that was watched (null: not by its lease)
-- $5 seconds that a job may be past twice its deadline (null: not by deadlines)   $6 how often a job may lose its owner
with owner as materialized (
    select i.beat_seq, i.beat_at, i.lease
    from wakeful.instance i
    where i.instance_id = $3 and i.state in ('live', 'draining')
    for share skip locked
),
held as materialized (
    select r.row_id, r.pos, r.cause
    from unnest($2::bigint[]) as i (pos)
    cross join lateral (
        select r.ctid as row_id, r.pos, r.dedupe_key, r.job_id, why.cause
        from wakeful.ready r
        left join wakeful.job_type t on t.job_type = r.job_type
        cross join lateral (
            select case
                when not exists (select from wakeful.instance d where d.instance_id = $3 and d.state in ('live', 'draining')) then
                    'its owner is dead'
                when exists (
                    select from owner o
                    where o.beat_seq = $4
                      and o.beat_at + least(o.lease, coalesce(t.lease, interval '30 seconds')) < clock_timestamp()) then
                    'its owner is silent'
                when r.deadline_at + r.deadline + make_interval(secs => $5::double precision) < clock_timestamp() then
                    'its owner does not end it, long past its deadline'
            end as cause
        ) as why
        where r.lane_id = $1 and r.pos = i.pos and r.owner = $3 and why.cause is not null
        limit 1
        for update of r skip locked
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
select d.job_id, d.claim, d.status
from (
    select array_agg(row (
        g.job, 'lose', said.reason, jsonb_build_object('type', 'LeaseExpired', 'message', said.reason), null, null
    )::wakeful.departure) as departures
    from gone g
    join held h on h.pos = (g.job).pos
    cross join lateral (
        select 'lease-expired reclaim: ' || h.cause || ' (instance ' || $3 || coalesce(' ' || n.name, '') || ')' as reason
        from (select) as one
        left join wakeful.instance n on n.instance_id = $3
    ) as said
) as departing
cross join lateral wakeful.depart(departing.departures, $6) as d
