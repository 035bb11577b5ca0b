-- The migrations that were applied here.
select m.version, m.name, m.checksum
from wakeful.migration m
order by m.version
