-- Open a measurement: its queue is held until release_bench, without a note in the audit, which nobody could remove.
-- The answer is a job id that none of its jobs comes before.   $1 name of the queue
insert into wakeful.queue (name, paused_at, paused_by, reason)
values ($1, now(), session_user, 'a measurement of `wakeful bench`, which removes this row')
returning wakeful.uuid7() as first_id
