-- The keys that wait to be folded, oldest first: for folding them one by one, when one of them stood in the way.
-- $1 keys at most   $2 keys to leave out
select o.dedupe_key
from wakeful.alert_outbox o
where o.alert_id is null and o.dedupe_key <> all ($2::text[])
group by o.dedupe_key
order by min(o.outbox_id)
limit $1
