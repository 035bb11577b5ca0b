-- The payload paths that name a subject, the same for every producer.   $1 the paths
update wakeful.installation set subject_paths = $1::text[]
