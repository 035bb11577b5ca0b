-- What is there, whatever version of Wakeful installed it, or none; and what this session may do about it.
select
    to_regnamespace('wakeful') is not null as has_schema,
    to_regclass('wakeful.installation') is not null as has_installation,
    has_database_privilege(current_database(), 'create') as may_create,
    current_setting('server_version_num')::integer as server_version,
    current_database() as database,
    current_user as role
