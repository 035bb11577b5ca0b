-- For tests, on a private server of their own only: no job, alert or decision about a queue is left.
truncate wakeful.ready, wakeful.scheduled, wakeful.dead, wakeful.finished, wakeful.dedupe, wakeful.progress, wakeful.job_log,
    wakeful.alert_delivery, wakeful.alert_notice, wakeful.alert_holder, wakeful.alert_sink, wakeful.alert_mute, wakeful.alert,
    wakeful.alert_outbox, wakeful.rescue,
    wakeful.queue, wakeful.lane, wakeful.lane_seen, wakeful.lane_head
