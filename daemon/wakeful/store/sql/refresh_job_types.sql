-- Bring the declarations in force up to date: the newest first_seen that a live instance publishes; a type that none
-- publishes keeps its last one.
with published as (
    select distinct s.key as job_type, s.value as hash
    from wakeful.instance i
    cross join lateral jsonb_each_text(i.serves) as s (key, value)
    where i.state = 'live'
),
newest as (
    select distinct on (d.job_type) d.job_type, d.hash, d.declaration
    from wakeful.job_type_declaration d
    join published p on p.job_type = d.job_type and p.hash = d.hash
    order by d.job_type, d.first_seen desc, d.hash
)
insert into wakeful.job_type as t (
    job_type, hash, queue, priority, max_attempts, deadline, lease, subject_path, secret_paths, limit_key, job_owner, history, steps)
select
    n.job_type, n.hash, n.declaration ->> 'queue', n.declaration ->> 'priority', (n.declaration ->> 'max_attempts')::integer,
    make_interval(secs => (n.declaration ->> 'deadline')::double precision),
    make_interval(secs => (n.declaration ->> 'lease')::double precision),
    n.declaration ->> 'subject_path', array(select jsonb_array_elements_text(n.declaration -> 'secret_paths')),
    n.declaration ->> 'limit_key', n.declaration ->> 'owner', (n.declaration ->> 'history')::boolean,
    array(select jsonb_array_elements_text(n.declaration -> 'steps'))
from newest n
order by n.job_type
on conflict (job_type) do update
set hash = excluded.hash, queue = excluded.queue, priority = excluded.priority, max_attempts = excluded.max_attempts,
    deadline = excluded.deadline, lease = excluded.lease, subject_path = excluded.subject_path,
    secret_paths = excluded.secret_paths, limit_key = excluded.limit_key, job_owner = excluded.job_owner,
    history = excluded.history, steps = excluded.steps, in_force_at = now()
where t.hash <> excluded.hash
returning t.job_type
