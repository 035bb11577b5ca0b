-- For tests: make an instance look as if it had been silent for a day. $1 instance
update wakeful.instance set beat_at = clock_timestamp() - interval '1 day' where instance_id = $1
returning instance_id
