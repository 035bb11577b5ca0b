-- Are there jobs in any other queue, waiting, running or ended?   $1 queue
select
    exists (select from wakeful.ready r where r.queue <> $1)
    or exists (select from wakeful.scheduled s where s.queue <> $1)
    or exists (select from wakeful.dead d where d.queue <> $1)
    or exists (select from wakeful.finished f where f.queue <> $1) as elsewhere
