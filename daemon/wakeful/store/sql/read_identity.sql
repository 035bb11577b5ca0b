-- The server that this installation belongs to, and the one that this is (null: it does not tell).
select i.system_identifier as stored, wakeful.system_identifier() as here
from wakeful.installation i
