-- The installation belongs to this server.
update wakeful.installation set system_identifier = wakeful.system_identifier() where system_identifier is null
