-- Let no statement of this transaction wait longer than $1 for a lock.
select set_config('lock_timeout', $1, true)
