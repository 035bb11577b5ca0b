-- What the page of a job shows: no payload, no result, of its error the first line, and of its progress no message.   $1 job
select j.job_id, j.job_type, j.status, j.queue, j.priority, j.subject, j.attempts, j.max_attempts, j.run_no, j.handed_back,
       j.snoozed, j.lost, j.run_after, j.created_at, j.started_at, j.finished_at, j.degraded <> '{}' as is_degraded,
       left(split_part(coalesce(j.last_error, ''), E'\n', 1), 4000) as error,
       coalesce((
           select jsonb_agg(jsonb_build_object('name', s.step ->> 'name', 'status', s.step ->> 'status', 'percent', s.step -> 'percent')
                            order by s.ordinality)
           from jsonb_array_elements(
               case when jsonb_typeof(j.progress -> 'steps') = 'array' then j.progress -> 'steps' else '[]' end)
               with ordinality as s (step, ordinality)), '[]')::text as steps
from wakeful.jobs j
where j.job_id = $1
