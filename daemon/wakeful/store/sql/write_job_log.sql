-- Store log lines of attempts; an attempt keeps its last 100. $1 job ids $2 runs $3 line numbers $4 times $5 levels $6 texts
insert into wakeful.job_log (job_id, run_no, line_no, logged_at, level, message)
select * from unnest($1::uuid[], $2::integer[], $3::integer[], $4::timestamptz[], $5::text[], $6::text[])
on conflict do nothing
