-- This instance ends and holds nothing; where it still holds a job, the row stays for the reaper. $1 instance  $2 incarnation
delete from wakeful.instance i
where i.instance_id = $1 and i.incarnation = $2
  and not exists (select from wakeful.ready r where r.owner = $1)
returning i.instance_id
