-- Has a job been in this queue lately?   $1 queue
select exists (select from wakeful.lane l where l.queue = $1) or exists (select from wakeful.lane_seen s where s.queue = $1) as met
