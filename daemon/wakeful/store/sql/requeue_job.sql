-- Run a DEAD or CANCELLED job again; null, with nothing done, in any other status.   $1 job
select wakeful.requeue($1) as job_id
