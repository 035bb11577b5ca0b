-- Remove what a measurement left beside its jobs: declaration, hold, instance, notes of its lanes.   $1 its name
with gone_type as (
    delete from wakeful.job_type t where t.job_type = $1
),
gone_declaration as (
    delete from wakeful.job_type_declaration d where d.job_type = $1
),
gone_queue as (
    delete from wakeful.queue q where q.name = $1
),
gone_instance as (
    delete from wakeful.instance i where i.name = $1
),
gone_alerts as (
    delete from wakeful.alert_outbox a where a.job_type = $1
)
delete from wakeful.lane_seen s where s.queue = $1
