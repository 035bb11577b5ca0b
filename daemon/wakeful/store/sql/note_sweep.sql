-- A pass over all of ready is over: a dead instance goes when two passes in turn have found nothing of it.
-- $1 instances of which nothing was found   $2 instances of which something was
with gone as (
    delete from wakeful.instance i
    where i.state = 'dead' and i.instance_id = any ($1::bigint[]) and i.swept >= 1
    returning i.instance_id
),
counted as (
    update wakeful.instance i
    set swept = case when i.instance_id = any ($1::bigint[]) then i.swept + 1 else 0 end
    where i.state = 'dead'
      and (i.instance_id = any ($1::bigint[]) and i.swept < 1 or i.instance_id = any ($2::bigint[]) and i.swept <> 0)
)
select g.instance_id
from gone g
