-- The version of the schema that is installed, and the oldest one that a daemon has to know.
select i.schema_version, i.breaking_version
from wakeful.installation i
