-- Remove the lanes of a measurement, after the notes that they are folded from: in between they may have been.  $1 its name
delete from wakeful.lane l where l.queue = $1 and l.job_type = $1
