-- This instance claims nothing any more. $1 instance  $2 incarnation
update wakeful.instance set state = 'draining' where instance_id = $1 and incarnation = $2 and state = 'live'
returning instance_id
