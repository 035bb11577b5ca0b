-- A transaction that writes as little as any can and has to reach the disk; in no table. $1 true: commit asynchronously
select set_config('synchronous_commit', case when $1::boolean then 'off' else current_setting('synchronous_commit') end, true),
       pg_logical_emit_message(true, 'wakeful bench', '')
