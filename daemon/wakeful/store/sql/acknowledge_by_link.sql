-- Take an alert on in somebody's name; gives how it stands now.   $1 alert   $2 who
select a.state, a.acknowledged_by, a.acknowledged_at, a.is_new
from wakeful.acknowledge_as($1, $2) as a
