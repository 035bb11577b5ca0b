-- How many bytes of WAL this server has written, whoever wrote them, and what it is.
select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint as written, current_setting('server_version') as version
