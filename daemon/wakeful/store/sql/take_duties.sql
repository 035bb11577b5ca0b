-- Take the duties that are due: whoever moves next_at on does them. A clock that was set back stalls none (I22).
-- $1 names   $2 their intervals in seconds
with due as (
    select d.name, make_interval(secs => w.seconds) as every
    from unnest($1::text[], $2::double precision[]) as w (name, seconds)
    join wakeful.duty d on d.name = w.name
    where d.next_at <= now() or d.next_at > now() + 2 * make_interval(secs => w.seconds)
    order by d.name
    for no key update of d skip locked
)
update wakeful.duty d
set next_at = now() + due.every
from due
where d.name = due.name
returning d.name
