-- Whether the three roles are there and may use the schema, or this session could not grant it to them anyway.
select
    not pg_has_role(n.nspowner, 'usage')
    or (select count(*) from pg_roles r
        where r.rolname in ('wakeful_producer', 'wakeful_worker', 'wakeful_observer')
          and has_schema_privilege(r.oid, n.oid, 'usage')) = 3 as granted
from pg_namespace n
where n.nspname = 'wakeful'
