-- Enqueue one no-op job as a producer does, with its wake-up.   $1 name of the queue and type
select e.job_id from wakeful.enqueue($1::text, queue => $1::text) as e
