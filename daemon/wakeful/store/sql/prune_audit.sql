-- Remove old entries of the audit; only the owner's function may.   $1 age in seconds   $2 rows
select wakeful.expire_audit(make_interval(secs => $1::double precision), $2) as rows
