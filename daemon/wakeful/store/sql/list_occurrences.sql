-- The latest occurrences of an alert.   $1 alert   $2 at most
select o.outbox_id, o.created_at, o.job_id, o.subject, o.title
from wakeful.alert_outbox o
where o.alert_id = $1
order by o.outbox_id desc
limit $2
