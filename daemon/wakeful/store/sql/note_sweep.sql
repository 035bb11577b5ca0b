-- A pass over all of ready is over: a dead instance goes when two passes in turn have found nothing of it; of a silent one is
-- noted which of its leases were past, so that no other reaper makes the pass for the same. Waits for no beat.
-- $1 dead ones of which nothing was found   $2 dead ones of which something was   $3 $4 $5 silent ones, beats, leases past
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
),
silent as (
    select i.instance_id, s.leases
    from unnest($3::bigint[], $4::bigint[], $5::integer[]) as s (instance_id, beat_seq, leases)
    join wakeful.instance i on i.instance_id = s.instance_id and i.beat_seq = s.beat_seq
    where i.state in ('live', 'draining')
    for no key update of i skip locked
),
noted as (
    update wakeful.instance i
    set swept_beat = i.beat_seq, swept_past = s.leases
    from silent s
    where i.instance_id = s.instance_id
)
select g.instance_id
from gone g
