-- Note that an alert could not be written as a message once more: the one that is named, or the first that is due. It is tried
-- again soon, then without its details, then rarely, and at last when it happens again.   $1 alert (null: the first due)
update wakeful.alert a
set untold = a.untold + 1,
    look_at = case
        when a.untold < 2 then now() + make_interval(secs => 10 * (a.untold + 1))
        when a.untold = 2 then now()
        when a.untold < 6 then now() + interval '10 minutes'
    end
where a.alert_id = coalesce($1::bigint, (
    select d.alert_id from wakeful.alert d where d.look_at <= now() order by d.look_at, d.alert_id limit 1 for no key update skip locked))
returning a.alert_id, a.kind, a.untold
