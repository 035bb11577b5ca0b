-- What became of jobs whose row did not come back: a statement of its own, so that it sees what the flush committed.
-- mine: the claim still holds. PENDING, DONE, DEAD or CANCELLED: moved by this token, to where the job is now.
-- lost: another claim or none holds it. unknown: no table has it.
-- $1 job ids   $2 tokens   $3 lanes   $4 positions
select
    i.n::integer as n,
    case
        when exists (
            select from wakeful.ready r where r.lane_id = i.lane_id and r.pos = i.pos and r.claim = i.claim) then 'mine'
        else coalesce(
            (select 'PENDING' from wakeful.ready r where r.job_id = i.job_id and r.moved_by = i.claim),
            (select 'PENDING' from wakeful.scheduled s where s.job_id = i.job_id and s.moved_by = i.claim),
            (select f.status from wakeful.finished f where f.job_id = i.job_id and f.moved_by = i.claim),
            (select 'DEAD' from wakeful.dead d where d.job_id = i.job_id and d.moved_by = i.claim),
            (select 'lost' from wakeful.ready r where r.job_id = i.job_id),
            (select 'lost' from wakeful.scheduled s where s.job_id = i.job_id),
            (select 'lost' from wakeful.finished f where f.job_id = i.job_id),
            (select 'lost' from wakeful.dead d where d.job_id = i.job_id),
            'unknown')
    end as verdict
from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[]) with ordinality as i (job_id, claim, lane_id, pos, n)
