-- What became of jobs whose row did not come back: a statement of its own, so that it sees what the flush committed.
-- $1 job ids   $2 tokens   $3 lanes   $4 positions
select
    i.n::integer as n,
    case
        when exists (
            select from wakeful.ready r where r.lane_id = i.lane_id and r.pos = i.pos and r.claim = i.claim) then 'mine'
        when exists (select from wakeful.ready r where r.job_id = i.job_id and r.moved_by = i.claim)
          or exists (select from wakeful.scheduled s where s.job_id = i.job_id and s.moved_by = i.claim)
          or exists (select from wakeful.finished f where f.job_id = i.job_id and f.moved_by = i.claim)
          or exists (select from wakeful.dead d where d.job_id = i.job_id and d.moved_by = i.claim) then 'moved'
        when exists (select from wakeful.ready r where r.job_id = i.job_id)
          or exists (select from wakeful.scheduled s where s.job_id = i.job_id)
          or exists (select from wakeful.finished f where f.job_id = i.job_id)
          or exists (select from wakeful.dead d where d.job_id = i.job_id) then 'lost'
        else 'unknown'
    end as verdict
from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[]) with ordinality as i (job_id, claim, lane_id, pos, n)
