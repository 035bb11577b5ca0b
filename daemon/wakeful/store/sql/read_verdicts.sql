-- What became of jobs whose row did not come back: a statement of its own, so that it sees what the flush committed.
-- mine: the claim still holds. PENDING, DONE, DEAD or CANCELLED: moved by this token, to where the job is now.
-- lost: another claim or none holds it. unknown: no table has it.
-- $1 job ids   $2 tokens   $3 lanes   $4 positions
select v.n, v.verdict
from wakeful.verdicts($1, $2, $3, $4) as v
