-- Remove rows of lanes that have none waiting or running, in slices by primary key. A lane's row is only a cache: an enqueue
-- that no longer finds it appends to lane_seen, so that no producer has to be waited for, and a lane of scheduled jobs alone
-- may go, too. What somebody has marked stays: closed, hot of late, unserved.   $1 lane that the last slice ended at
-- $2 rows   $3 age in seconds   $4 false: remove nothing, only say where the slice ends
with slice as materialized (
    select l.lane_id
    from wakeful.lane l
    where l.lane_id > $1
    order by l.lane_id
    limit (select $2::bigint)
),
unused as materialized (
    select l.lane_id
    from wakeful.lane l
    where $4::boolean
      and l.lane_id = any (array(select s.lane_id from slice s))
      and greatest(l.first_seen, l.hot_until) < clock_timestamp() - make_interval(secs => $3::double precision)
      and not l.closed
      and l.unserved_since is null
      and not exists (select from wakeful.ready r where r.lane_id = l.lane_id)
    for update of l skip locked
),
gone as (
    delete from wakeful.lane l
    where l.lane_id = any (array(select u.lane_id from unused u))
    returning l.lane_id
)
select
    (select count(*) from slice)::integer as seen,
    (select s.lane_id from slice s order by s.lane_id desc limit 1) as last_id,
    (select count(*) from gone)::integer as rows
