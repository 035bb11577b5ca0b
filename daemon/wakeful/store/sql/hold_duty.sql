-- Keep a duty that takes longer than its interval, or let go of one that is done before.   $1 name   $2 seconds from now on
update wakeful.duty set next_at = clock_timestamp() + make_interval(secs => $2::double precision) where name = $1
