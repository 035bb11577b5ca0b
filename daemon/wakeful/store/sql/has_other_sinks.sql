-- Whether a live instance is configured with a sink that this process does not have.   $1 names of sinks
select exists (
    select from wakeful.instance i where i.state in ('live', 'draining') and not i.sinks <@ $1::text[]) as others
