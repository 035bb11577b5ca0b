-- Mute what is like an alert in somebody's name; gives the mute, also one that was there.   $1 alert   $2 seconds   $3 reason   $4 who
select m.mute_id, m.until, m.muted_by, m.kind, m.job_type, m.queue, m.subject, m.is_new
from wakeful.mute_alert($1, make_interval(secs => $2::double precision), $3, $4) as m
