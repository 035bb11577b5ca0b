-- Store progress documents, each by its current claim only and never over a later run; the answer names those stored.
-- $1 lanes   $2 positions   $3 tokens   $4 documents, JSON text
with hurried as materialized (
    select set_config('synchronous_commit', 'off', true)
),
item as (
    select i.n, i.document, r.job_id, r.run_no
    from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[]) with ordinality as i (lane_id, pos, claim, document, n)
    cross join hurried
    cross join lateral (
        select r.job_id, r.run_no
        from wakeful.ready r
        where r.lane_id = i.lane_id and r.pos = i.pos and r.claim = i.claim
        limit 1
    ) as r
),
stored as (
    insert into wakeful.progress as p (job_id, run_no, document)
    select i.job_id, i.run_no, i.document::jsonb
    from item i
    order by i.job_id
    on conflict (job_id) do update
    set run_no = excluded.run_no, document = excluded.document, updated_at = now()
    where p.run_no <= excluded.run_no
    returning p.job_id
)
select i.n::integer as n
from item i
join stored s on s.job_id = i.job_id
