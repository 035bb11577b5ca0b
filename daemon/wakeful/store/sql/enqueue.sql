-- A job, on a producer's own connection. Texts and numbers only, so that no codec of the caller's connection changes a value;
-- casts in words, so that another driver's placeholders fit in place of the numbered ones.
select e.job_id, e.created
from wakeful.enqueue(
    job_type => cast($1 as text),
    payload => cast(cast($2 as text) as jsonb),
    queue => cast($3 as text),
    priority => cast($4 as text),
    subject => cast($5 as text),
    dedupe_key => cast($6 as text),
    run_after => cast(cast($7 as text) as timestamptz),
    max_attempts => cast($8 as integer),
    deadline => make_interval(secs => cast($9 as double precision)),
    tags => cast($10 as text[]),
    meta => cast(cast($11 as text) as jsonb),
    "group" => cast($12 as text),
    limit_key => cast($13 as text)
) as e
