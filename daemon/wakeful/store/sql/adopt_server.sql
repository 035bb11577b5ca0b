-- This installation now belongs to this server.
select wakeful.adopt(wakeful.system_identifier())
