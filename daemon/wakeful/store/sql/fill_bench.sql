-- Enqueue no-op jobs in one call, waking nobody; gives how many there are now.   $1 name of the queue and type   $2 how many
select count(*)::integer
from wakeful.enqueue_many(
    (select jsonb_agg(jsonb_build_object('job_type', $1::text, 'queue', $1::text, 'payload', jsonb_build_object('n', g)))
     from generate_series(1, $2::integer) as g),
    false)
