-- Note what sinks are told of alerts, or that something waits for their next digest.
-- $1 alerts   $2 sinks   $3 told as   $4 when   $5 occurrences told   $6 held until
insert into wakeful.alert_notice (alert_id, sink, told_as, told_at, occurrences, held_until)
select * from unnest($1::bigint[], $2::text[], $3::text[], $4::timestamptz[], $5::bigint[], $6::timestamptz[])
order by 1, 2
on conflict (alert_id, sink) do update set
    told_as = excluded.told_as, told_at = excluded.told_at, occurrences = excluded.occurrences, held_until = excluded.held_until
returning alert_id
