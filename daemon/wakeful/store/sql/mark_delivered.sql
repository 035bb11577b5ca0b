-- The receiver accepted it. Said without a look at the lease: what has arrived is not sent again, whoever holds it now. What
-- its sink has refused in a row before is forgotten.   $1 delivery   $2 what the receiver said
with taken as (
    update wakeful.alert_delivery d
    set state = 'delivered', delivered_at = clock_timestamp(), last_answer = $2, leased_by = null, leased_until = null
    where d.delivery_id = $1 and d.state = 'pending'
    returning d.delivery_id, d.sink
),
forgiven as (
    update wakeful.alert_sink s
    set refusals = 0, refused_since = null
    where s.sink = any (array(
        select r.sink from wakeful.alert_sink r
        where r.sink = any (array(select t.sink from taken t)) and r.refusals > 0
        for no key update skip locked))
)
select t.delivery_id from taken t
