-- Every duty that this version knows has its row.   $1 names
insert into wakeful.duty (name)
select n from unnest($1::text[]) as n order by n
on conflict do nothing
