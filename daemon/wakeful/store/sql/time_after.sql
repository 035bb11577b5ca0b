-- The time so long from now, by the database's clock.   $1 seconds
select clock_timestamp() + make_interval(secs => $1::double precision) as at
