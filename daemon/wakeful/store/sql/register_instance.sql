-- A new row for this process. $1 incarnation  $2 name  $3 host  $4 pid  $5 version  $6 longest lease, seconds
-- $7 serves every type  $8 types and the hashes of their declarations, JSON  $9 queues
insert into wakeful.instance (incarnation, name, host, pid, version, lease, every_type, serves, queues)
values ($1, $2, $3, $4, $5, make_interval(secs => $6::double precision), $7, $8::text::jsonb, $9::text[])
returning instance_id
