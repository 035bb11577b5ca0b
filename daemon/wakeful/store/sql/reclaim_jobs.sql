-- Take jobs of one lane back from an owner that has lost them: it is dead or gone, or its lease for their type is past, or
-- they are past twice their deadline. All of it is looked at again here, with the owner's row locked, so that a beat waits
-- and is told the truth by its look-up (I5). Never waits: what somebody else has locked is left for the next pass.
-- $1 lane   $2 positions   $3 owner   $4 the beat that was watched (null: not by its lease)
-- $5 seconds that a job may be past twice its deadline (null: not by deadlines)   $6 how often a job may lose its owner
select c.job_id, c.claim, c.status
from wakeful.reclaim($1, $2, $3, $4, $5, $6) as c
