-- One look before the rules are evaluated. idle: the rules that would find nothing now, since nothing is there that they look at;
-- one that is not named here is evaluated each time. critical: the critical types are not those that live instances name.
-- kinds and keys: of the conditions that have an alert.   $1 from how many seconds on a transaction is too long
with waiting as materialized (
    select exists (select from wakeful.ready r) as some
)
select
    array_remove(array[
        case when not w.some and not exists (select from wakeful.lane_head h) then 'queue_stalled' end,
        case when not w.some then 'overrun' end,
        case when not exists (select from wakeful.lane l where l.unserved_since is not null) then 'no_worker' end,
        case when not exists (
            select from (select o.created_at from wakeful.alert_outbox o order by o.outbox_id desc limit 100) as latest
            where latest.created_at > now() - interval '10 minutes') then 'dead_rate' end,
        case when not exists (select from wakeful.rescue r) then 'rescues' end,
        case when not exists (
            select from pg_stat_activity a
            where a.datname = current_database() and a.backend_xmin is not null and a.pid <> pg_backend_pid()
              and a.xact_start < now() - make_interval(secs => $1::double precision)) then 'long_transaction' end,
        case when not exists (select from wakeful.alert_delivery d where d.state = 'pending' and d.attempts > 0)
              and not exists (select from wakeful.alert_sink s where s.closed_at is not null)
              and not exists (
                  select from wakeful.alert a where a.kind = 'sink_failing' and a.lasting and a.state <> 'resolved')
              then 'sink_failing' end,
        case when not exists (select from wakeful.instance i where i.blocked_for is not null) then 'loop_blocked' end,
        case when not exists (select from wakeful.instance i where i.deaf_for is not null) then 'listener_down' end,
        case when not exists (select from wakeful.instance i where i.clock_ahead is not null) then 'clock_skew' end
    ], null) as idle,
    (select array_agg(distinct t.job_type order by t.job_type)
     from wakeful.instance i
     cross join lateral unnest(i.critical_types) as t (job_type)
     where i.state in ('live', 'draining'))
        is distinct from (select array_agg(c.job_type order by c.job_type) from wakeful.critical_type c) as critical,
    array(select a.kind from wakeful.alert a where a.state <> 'resolved' and a.lasting order by a.alert_id) as kinds,
    array(select a.dedupe_key from wakeful.alert a where a.state <> 'resolved' and a.lasting order by a.alert_id) as keys
from waiting w
