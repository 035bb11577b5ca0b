-- The log lines of one job, all its runs in order.   $1 job
select l.run_no, l.line_no, l.logged_at, l.level, l.message
from wakeful.job_log l
where l.job_id = $1
order by l.run_no, l.line_no
