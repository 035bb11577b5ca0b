-- An alert of a handler, in the transaction that settles its job.
-- $1 kind $2 title $3 dedupe key $4 severity $5 subject $6 body, JSON text $7 job type $8 job id
select wakeful.alert($1, $2, $3, $4, $5, $6::text::jsonb, $7, $8) as outbox_id
