-- The rights that a measurement needs, to clean up above all, and that this role lacks: "table: right".
select t.name || ': ' || p.name as missing
from unnest(array[
        'ready', 'scheduled', 'dead', 'finished', 'queue', 'lane', 'lane_seen', 'job_type', 'job_type_declaration', 'instance',
        'alert_outbox'
     ]) as t (name)
cross join unnest(array['SELECT', 'INSERT', 'DELETE']) as p (name)
where not has_table_privilege('wakeful.' || t.name, p.name)
order by t.name, p.name
