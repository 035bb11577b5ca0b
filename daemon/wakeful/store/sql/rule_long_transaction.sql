-- Transactions that have held a snapshot for longer than $1 seconds: what they may still see can't be removed, which makes
-- claims slower. The oldest only, without its query, which may hold what is nobody's business.
select 'oldest' as what, null::text as queue, null::text as job_type, nullif(a.application_name, '') as subject,
       extract(epoch from now() - a.xact_start)::double precision as value,
       jsonb_build_object('pid', a.pid, 'application', a.application_name, 'role', a.usename, 'state', a.state,
                          'since', a.xact_start)::text as details
from pg_stat_activity a
where a.datname = current_database() and a.backend_xmin is not null and a.pid <> pg_backend_pid()
  and a.xact_start < now() - make_interval(secs => $1::double precision)
order by a.xact_start
limit 1
