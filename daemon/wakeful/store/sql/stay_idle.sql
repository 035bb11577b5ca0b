-- This session only listens: being idle is its work. Not for a session that a pooler shares.
select set_config('idle_session_timeout', '0', false)
