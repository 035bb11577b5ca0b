-- Keep jobs whose attempt has ended, but whose result still waits to be written, from the backstop, which takes back what is
-- far past its deadline. Only claims that hold, and whose deadline is past; what somebody else has locked is left.
-- $1 lanes   $2 positions   $3 tokens
with held as materialized (
    select r.row_id
    from unnest($1::bigint[], $2::bigint[], $3::bigint[]) as i (lane_id, pos, claim)
    cross join lateral (
        select r.ctid as row_id
        from wakeful.ready r
        where r.lane_id = i.lane_id and r.pos = i.pos and r.claim = i.claim and r.deadline_at < clock_timestamp()
        limit 1
        for no key update skip locked
    ) as r
)
update wakeful.ready r
set deadline_at = clock_timestamp()
where r.ctid = any (array(select h.row_id from held h))
returning r.job_id
