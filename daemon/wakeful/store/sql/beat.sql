-- Prove that this instance is alive; no row: it was deposed. $1 instance  $2 incarnation
with hurried as materialized (
    select set_config('synchronous_commit', 'off', true)
)
update wakeful.instance i
set beat_at = clock_timestamp(), beat_seq = i.beat_seq + 1
from hurried
where i.instance_id = $1 and i.incarnation = $2 and i.state in ('live', 'draining')
returning i.beat_seq
