-- Say when there may next be something to say about alerts (null: never again). Those that could be written again after all
-- have their tries back, but for those that are written without details.   $1 alerts   $2 times
update wakeful.alert a
set look_at = p.look_at, untold = case when a.untold >= 3 then a.untold else 0 end
from unnest($1::bigint[], $2::timestamptz[]) as p (alert_id, look_at)
where a.alert_id = p.alert_id
returning a.alert_id
