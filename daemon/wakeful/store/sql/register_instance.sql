-- A new row for this process. $1 incarnation  $2 name  $3 host  $4 pid  $5 version  $6 longest lease, seconds
-- $7 serves every type  $8 types and the hashes of their declarations, JSON  $9 queues  $10 sinks
-- $11 job types whose first failed attempt is told  $12 hash of its settings of the rules
insert into wakeful.instance (
    incarnation, name, host, pid, version, lease, every_type, serves, queues, sinks, critical_types, rules)
values ($1, $2, $3, $4, $5, make_interval(secs => $6::double precision), $7, $8::text::jsonb, $9::text[], $10::text[], $11::text[],
        $12)
returning instance_id
