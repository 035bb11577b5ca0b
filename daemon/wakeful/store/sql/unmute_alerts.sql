-- Take a mute back before its time.   $1 mute
select wakeful.unmute($1) as changed
