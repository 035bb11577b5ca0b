-- Give back what a claim with a lost reply took: its token is ours, nothing of it was started. What somebody else has
-- locked is left, and counted. $1 lane   $2 the token   $3 the first position that the claim can have taken
with taken as materialized (
    select count(*) as rows, array_agg(r.pos) as positions, array_agg(r.claim) as tokens
    from wakeful.ready r
    where r.lane_id = $1 and r.pos >= $3 and r.claim = $2
),
back as materialized (
    select count(d.job_id) as rows
    from (
        select array_agg(row (g, 'put_back', null, null, null, $2)::wakeful.departure) as departures
        from taken t
        cross join lateral wakeful.take_out($1, t.positions, t.tokens, free_keys => false) as g
    ) as departing
    cross join lateral wakeful.depart(departing.departures) as d
)
select back.rows as released, taken.rows - back.rows as left_behind
from taken, back
