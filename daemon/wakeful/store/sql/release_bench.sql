-- Let the measured instance at its queue: its hold goes, and whoever listens looks again.   $1 name of the queue
with released as (
    delete from wakeful.queue q where q.name = $1 returning q.name
)
select pg_notify('wakeful', '') from released
