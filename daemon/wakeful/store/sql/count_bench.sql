-- How many jobs of a measurement are not yet at their end.   $1 name of the queue and type
select (select count(*) from wakeful.ready r where r.lane_id = wakeful.lane_id($1, 'normal', $1, null, false))
     + (select count(*) from wakeful.scheduled s where s.job_type = $1) as left_over
