-- For this transaction only: names mean what they say, and a long step is not cut off. Before the lock, so that the wait
-- for it is not either.
select
    set_config('search_path', 'pg_catalog', true),
    set_config('check_function_bodies', 'on', true),
    set_config('statement_timeout', '600s', true),
    set_config('idle_in_transaction_session_timeout', '600s', true)
