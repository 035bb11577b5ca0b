-- Whether these are the payload paths that name a subject.   $1 the paths
select i.subject_paths = $1::text[] as has
from wakeful.installation i
