-- Remember what handlers declare; one seen before keeps its first_seen. $1 array of {job_type, hash, declaration}, JSON
insert into wakeful.job_type_declaration (job_type, hash, declaration)
select d.job_type, d.hash, d.declaration
from jsonb_to_recordset($1::text::jsonb) as d (job_type text, hash text, declaration jsonb)
order by d.job_type
on conflict do nothing
