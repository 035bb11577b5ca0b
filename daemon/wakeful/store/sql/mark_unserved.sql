-- Note since when a lane with waiting jobs has had no live instance that serves its job type; and forget it where one does.
-- A paused queue and a closed lane are left as they are: nothing happens there. Gives whether there may be any at all.
with recursive present (lane_id) as (
    (select r.lane_id from wakeful.ready r order by r.lane_id limit 1)
    union all
    select (select r.lane_id from wakeful.ready r where r.lane_id > p.lane_id order by r.lane_id limit 1)
    from present p
    where p.lane_id is not null
),
unserved as (
    select p.lane_id, head.queue, head.priority, head.job_type, head.limit_key, head.lost >= 2 as suspect
    from present p
    cross join lateral (
        select r.queue, r.priority, r.job_type, r.limit_key, r.lost
        from wakeful.ready r
        where r.lane_id = p.lane_id and coalesce(r.owner < 0, true)
        order by r.pos
        limit 1
    ) as head
    where p.lane_id is not null
      and not exists (
          select from wakeful.instance i where i.state = 'live' and (i.every_type or i.serves ? head.job_type))
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
