-- Tell nobody of alerts that fit everything named here, for a while.
-- $1 seconds   $2 reason   $3 kind   $4 job type   $5 queue   $6 subject
select wakeful.mute(s.until, $2, $3, $4, $5, $6) as mute_id, s.until
from (select now() + make_interval(secs => $1::double precision) as until) as s
