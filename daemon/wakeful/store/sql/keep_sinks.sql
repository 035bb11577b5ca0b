-- Let each sink have its row.   $1 names of sinks
insert into wakeful.alert_sink (sink)
select s.name from unnest($1::text[]) as s (name) order by s.name
on conflict (sink) do nothing
returning sink
