-- A notification to oneself: what proves that LISTEN works on this connection.   $1 channel, this connection's own   $2 text
select pg_notify($1, $2)
