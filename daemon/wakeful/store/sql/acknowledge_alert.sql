-- Take an alert on.   $1 alert
select wakeful.acknowledge($1) as changed
