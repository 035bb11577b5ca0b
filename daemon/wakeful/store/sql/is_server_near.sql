-- Does this connection come to the server over its own machine: a unix socket, or a loopback address?
select coalesce(inet_server_addr() <<= inet '127.0.0.0/8' or inet_server_addr() = inet '::1', true) as near
