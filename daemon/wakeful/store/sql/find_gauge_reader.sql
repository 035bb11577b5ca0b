-- Who reads the gauges of the whole database for all: the oldest instance that lives, or whoever asks, if nobody does.
-- $1 instance id of whoever asks
select
    (select i.instance_id
     from wakeful.instance i
     where i.instance_id = $1 or (i.state = 'live' and i.beat_at > clock_timestamp() - interval '30 seconds')
     order by (i.state = 'live') desc, i.instance_id
     limit 1) as instance_id,
    (select max(n.schema_version) from wakeful.installation n) as schema_version
