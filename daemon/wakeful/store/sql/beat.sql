-- Prove that this instance is alive, and report how it is; no row: it was deposed. Gives the server's time, in seconds.
-- $1 instance  $2 incarnation  $3 seconds for which its listener has heard nothing (null: it listens)  $4 the longest standstill
-- of its event loop, in seconds, or null  $5 type of the job that blocked it  $6 seconds that its clock is ahead, or null
-- $7 free workers
with hurried as materialized (
    select set_config('synchronous_commit', 'off', true)
)
update wakeful.instance i
set beat_at = clock_timestamp(), beat_seq = i.beat_seq + 1, deaf_for = $3, blocked_for = $4, blocked_by = $5, clock_ahead = $6,
    free_workers = $7
from hurried
where i.instance_id = $1 and i.incarnation = $2 and i.state in ('live', 'draining')
returning extract(epoch from clock_timestamp())::double precision as server_s
