-- Create the roles where missing and grant them what they may do; gives the statements that an administrator has to run first.
select wakeful.grant_roles() as missing
