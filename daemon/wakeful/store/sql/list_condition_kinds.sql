-- The rules that have an alert which is not resolved.
select distinct a.kind from wakeful.alert a where a.state <> 'resolved' and a.lasting
