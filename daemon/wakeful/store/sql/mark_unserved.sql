-- Note since when a lane with waiting jobs has had no live instance that serves its job type; and forget it where one does.
-- A paused queue and a closed lane are left as they are: nothing happens there. Gives whether there may be any at all.
-- Lanes that are known to be of a served type are not looked at, as in find_lanes, only what lies between them: while somebody
-- holds a snapshot, all that was worked off of late lies dead at their heads.
with recursive
live as materialized (
    select i.every_type, i.serves from wakeful.instance i where i.state = 'live'
),
served_type as materialized (
    select distinct s.job_type from live l cross join lateral jsonb_object_keys(l.serves) as s (job_type)
),
known as materialized (
    select array(
        select k.lane_id
        from (
            select l.lane_id, l.job_type from wakeful.lane l
            union all
            select n.lane_id, n.job_type from wakeful.lane_seen n
        ) as k
        where k.job_type in (select s.job_type from served_type s)
        order by k.lane_id
    ) as lanes
),
step (at, known, lane_id) as (
    select (-9223372036854775808)::bigint, 1, null::bigint
    where not exists (select from live l where l.every_type)
    union all
    select coalesce(found.lane_id, next.known), s.known + (found.lane_id is null)::integer, found.lane_id
    from step s
    cross join lateral (select ((select k.lanes from known k))[s.known] as known) as next
    left join lateral (
        select r.lane_id
        from wakeful.ready r
        where r.lane_id > s.at and r.lane_id < coalesce(next.known, 9223372036854775807)
        order by r.lane_id
        limit 1
    ) as found on true
    where s.at is not null
),
unserved as (
    select s.lane_id, head.queue, head.priority, head.job_type, head.limit_key, head.lost >= 2 as suspect
    from step s
    cross join lateral (
        select r.queue, r.priority, r.job_type, r.limit_key, r.lost
        from wakeful.ready r
        where r.lane_id = s.lane_id and coalesce(r.owner < 0, true)
        order by r.pos
        limit 1
    ) as head
    where s.lane_id is not null
      and head.job_type not in (select t.job_type from served_type t)
      and not exists (select from wakeful.queue q where q.name = head.queue and q.paused_at is not null)
),
served as (
    update wakeful.lane l
    set unserved_since = null
    where l.unserved_since is not null
      and exists (select from wakeful.instance i where i.state = 'live' and (i.every_type or i.serves ? l.job_type))
),
marked as (
    insert into wakeful.lane as l (lane_id, queue, priority, job_type, limit_key, suspect, unserved_since)
    select u.lane_id, u.queue, u.priority, u.job_type, u.limit_key, u.suspect, clock_timestamp()
    from unserved u
    order by u.lane_id
    on conflict (lane_id) do update
    set unserved_since = excluded.unserved_since
    where l.unserved_since is null and not l.closed
    returning l.lane_id
)
select exists (select from marked) or exists (select from wakeful.lane l where l.unserved_since is not null) as some
