-- Who reads the gauges of the whole database for all: the oldest instance that lives and whose event loop has not stood still
-- for long of late, so that they can be scraped; or whoever asks, if there is none.   $1 instance id of whoever asks
select
    (select i.instance_id
     from wakeful.instance i
     where i.instance_id = $1 or (i.state = 'live' and i.beat_at > clock_timestamp() - interval '30 seconds')
     order by (i.state = 'live') desc, coalesce(i.blocked_for, 0) > 20, i.instance_id
     limit 1) as instance_id,
    (select max(n.schema_version) from wakeful.installation n) as schema_version
