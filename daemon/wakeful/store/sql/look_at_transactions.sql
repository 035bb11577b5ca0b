-- What the settled low water stands on: the last position that was taken, then a transaction id, and the transactions that
-- were running before both. The order is the point: whoever took one of these positions had its id by then, a smaller one.
-- A sequence that nobody has used stands at its first value without having given it out.
with taken as materialized (
    select case when p.is_called then p.last_value else p.last_value - 1 end as position from wakeful.position p
)
select
    t.position, pg_current_xact_id()::text::bigint as number, pg_snapshot_xmax(pg_current_snapshot())::text::bigint as beyond,
    array(select x::text::bigint from pg_snapshot_xip(pg_current_snapshot()) as x) as running
from taken t
