"""The catalogue of everything that the daemon says; logs, metrics, health, pages and tests are views of it.

Invariant: an event is named `noun.past_verb`, its name and fields never change their meaning, and nothing is
logged by Wakeful that is not here. A new event is one constant below, in its group; `EVENTS` finds it by
itself, `docs/events.md` is made from it (`python -m wakeful.telemetry.reference`), and a counter for it is
one line in `telemetry.meters`. Levels: debug for each pass, info for lifecycle and outcomes, warning for what
heals by itself, error for what someone must look at, critical only just before the process ends by itself. A
stop is never an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Level = Literal["debug", "info", "warning", "error", "critical"]


# Without eq: each is one of a kind, and who looks one up, several times a job, compares no texts.
@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """One kind of event, and the fields that it may carry; times are in seconds, unless named `_ms`."""

    name: str
    level: Level
    help: str
    fields: tuple[str, ...] = ()


# What every line about one attempt carries; `outcome` is the event's second word, `next_run_in` in seconds.
ATTEMPT: Final = (
    *("job_id", "job_type", "queue", "subject", "run_no", "attempt", "outcome"),
    *("wait_ms", "run_ms", "error_type", "error", "next_run_in", "trace_id", "span_id"),
)
_JOB: Final = ("job_id", "job_type", "queue", "subject", "run_no", "attempt", "trace_id", "span_id")

# A table: an entry is one line where it fits, else two.
# fmt: off

# The life of the process.
CONFIG_LOADED: Final = Event("config.loaded", "info", "The configuration was read.", ("path", "overrides"))
DAEMON_STARTED: Final = Event("daemon.started", "info", "An instance is about to claim its first job.",
    ("instance_id", "name", "version", "pid", "database", "queues", "job_types", "concurrency",
     "tracing"))
PHASE_ENTERED: Final = Event("phase.entered", "info", "The process went on to its next phase.",
    ("phase", "reason"))
STOP_REQUESTED: Final = Event("stop.requested", "info", "An orderly stop was asked for.", ("signal",))
STOP_HURRIED: Final = Event("stop.hurried", "info", "Asked again: running handlers are not waited for.",
    ("signal",))
SIGNALS_RETAKEN: Final = Event("signals.retaken", "warning",
    "A handler took the stop signals for itself; the daemon has them back.", ("signals",))
DAEMON_QUIESCED: Final = Event("daemon.quiesced", "info", "No job is claimed any more.", ("running",))
DAEMON_DRAINED: Final = Event("daemon.drained", "info", "No job runs here any more.",
    ("seconds", "handed_back"))
DAEMON_INTERRUPTED: Final = Event("daemon.interrupted", "info",
    "The grace is over: running jobs are cancelled and handed back.", ("running", "grace"))
DAEMON_STOPPED: Final = Event("daemon.stopped", "info", "The process ends.", ("exit_code", "seconds"))
DAEMON_CRASHED: Final = Event("daemon.crashed", "critical", "A part failed as it never should; exit 1.",
    ("error",))
EXIT_REFUSED: Final = Event("exit.refused", "warning",
    "A handler's task or callback tried to end the process, or tasks that are not its own; it did not.",
    ("error",))
LOG_DROPPED: Final = Event("log.dropped", "warning",
    "Nobody read the log for a while, and its pipe was full: so many lines were not written.", ("lines",))
THREAD_ABANDONED: Final = Event("thread.abandoned", "critical",
    "Threads of handlers would not end; the process exits hard with 1.", ("jobs",))
PROCESS_STARTED: Final = Event("process.started", "info", "A process for handlers with isolation is ready.",
    ("process", "seconds"))
PROCESS_ENDED: Final = Event("process.ended", "info",
    "A process for handlers has ended, by itself, at a limit or because it was replaced.", ("process", "how", "jobs"))
RESOURCES_OPENED: Final = Event("resources.opened", "info", "The handlers' lifespan was entered.",
    ("seconds",))
RESOURCES_CLOSED: Final = Event("resources.closed", "info", "The handlers' lifespan was left.", ("seconds",))
RESOURCES_FAILED: Final = Event("resources.failed", "error", "The handlers' lifespan raised.",
    ("stage", "error"))

# The database, as one state of the process.
DATABASE_LOST: Final = Event("database.lost", "warning", "The database can't be reached; retried.",
    ("error", "host"))
DATABASE_RESTORED: Final = Event("database.restored", "info", "The database answers again.",
    ("seconds", "attempts"))
SERVER_CHANGED: Final = Event("server.changed", "warning",
    "The server was restarted or replaced; cursors begin anew.", ("what", "before", "now"))
SERVER_REFUSED: Final = Event("server.refused", "error",
    "Not the server of this installation: nothing runs here until `wakeful adopt`.", ("stored", "here"))
SERVER_ACCEPTED: Final = Event("server.accepted", "debug", "The installation belongs to this server.", ("system",))
SERVER_UNIDENTIFIED: Final = Event("server.unidentified", "info",
    "The server does not tell its identifier: one in its place would not be noticed.", ())
POSITION_RAISED: Final = Event("position.raised", "warning",
    "The sequence of positions had gone backwards in a crash; it is right again.", ("position",))
STATEMENT_RETRIED: Final = Event("statement.retried", "debug",
    "A statement lost a race in the server and runs again.", ("statement", "sqlstate"))
MIGRATION_APPLIED: Final = Event("migration.applied", "info", "A migration was committed.",
    ("name", "seconds"))
LISTENER_CONNECTED: Final = Event("listener.connected", "info", "LISTEN works; jobs wake at once.",
    ("seconds",))
LISTENER_LOST: Final = Event("listener.lost", "warning",
    "The listening connection is gone; polled meanwhile.", ("error",))
LISTENER_DEGRADED: Final = Event("listener.degraded", "warning",
    "LISTEN does not work here (a pooler?); jobs are found by polling.", ("reason",))
NOTIFICATION_RECEIVED: Final = Event("notification.received", "debug", "A notification rang the bell.",
    ("lane_id",))
NOTIFICATION_IGNORED: Final = Event("notification.ignored", "debug",
    "A notification that makes no sense counted as an empty one.", ("payload",))

# This instance and its leases.
INSTANCE_REGISTERED: Final = Event("instance.registered", "info",
    "This process has its row, and so its lease.", ("instance_id", "name", "incarnation"))
INSTANCE_DEPOSED: Final = Event("instance.deposed", "warning",
    "This instance was taken for dead: its jobs are lost, it registers anew.",
    ("instance_id", "reason", "jobs"))
INSTANCE_RETIRED: Final = Event("instance.retired", "info", "This instance gave its row back.",
    ("instance_id",))
INSTANCE_REAPED: Final = Event("instance.reaped", "warning", "Another instance was found dead.",
    ("instance_id", "name", "jobs", "silent_seconds"))
BEAT_FAILED: Final = Event("beat.failed", "warning", "A heartbeat did not get through.",
    ("error", "silent_seconds"))
BEAT_RESTORED: Final = Event("beat.restored", "info", "Heartbeats get through again.", ("silent_seconds",))
LEASE_FENCED: Final = Event("lease.fenced", "warning",
    "Without a beat for too long: a job was not started, or interrupted.", (*_JOB, "stage", "silent_seconds"))
LOOP_BLOCKED: Final = Event("loop.blocked", "warning",
    "A handler blocks the event loop; its stack is in `stack`.", ("job_id", "job_type", "seconds", "stack"))
LOOP_STALLED: Final = Event("loop.stalled", "critical",
    "The event loop is dead for good; the process exits with 1.", ("jobs", "seconds", "stack"))

# Claiming.
LANES_CLAIMED: Final = Event("lanes.claimed", "debug", "A claim round is over.", ("lanes", "jobs", "seconds"))
CLAIM_FAILED: Final = Event("claim.failed", "warning", "A claim round failed; tried again.", ("error",))
JOBS_CLAIMED: Final = Event("jobs.claimed", "debug", "Jobs of one lane are ours: told once for all of them.",
    ("job_type", "queue", "jobs"))
JOB_CLAIMED: Final = Event("job.claimed", "debug", "A job is ours.", (*_JOB, "wait_ms"))
JOB_STARTED: Final = Event("job.started", "debug", "A handler was called.", _JOB)

# How an attempt ended: exactly one of these for each, the canonical line.
JOB_FINISHED: Final = Event("job.finished", "info", "DONE.", (*ATTEMPT, "degraded"))
JOB_RETRIED: Final = Event("job.retried", "warning", "The attempt failed; the job runs again later.", ATTEMPT)
JOB_DIED: Final = Event("job.died", "error", "DEAD: the job is a dead letter, its alert is written.", ATTEMPT)
JOB_SNOOZED: Final = Event("job.snoozed", "info", "The handler asked to run later; attempt not spent.",
    ATTEMPT)
JOB_CANCELLED: Final = Event("job.cancelled", "info", "CANCELLED, by an operator or by its handler.", ATTEMPT)
JOB_HANDED_BACK: Final = Event("job.handed_back", "info", "Given back by a stop; attempt not spent.", ATTEMPT)
JOB_LOST: Final = Event("job.lost", "warning", "Held by another claim by now: this result was dropped.",
    ATTEMPT)
JOB_UNKNOWN_OUTCOME: Final = Event("job.unknown_outcome", "warning",
    "The row left no trace: it ended, or was removed; never run again here.", ATTEMPT)

# The same for all that ended alike in one flush: what metrics are fed by.
ATTEMPTS_ENDED: Final = Event("attempts.ended", "debug", "Attempts of one type ended alike; their times one by one.",
    ("queue", "job_type", "outcome", "jobs", "wait_ms", "run_ms"))

# Jobs that make trouble while they run, or at their edges.
JOB_STUCK: Final = Event("job.stuck", "warning",
    "Past its deadline and does not end; its worker was replaced.", (*_JOB, "over_seconds", "kind"))
JOB_UNSTUCK: Final = Event("job.unstuck", "info", "A stuck handler has ended after all.",
    (*_JOB, "over_seconds"))
JOB_OVERLAPPED: Final = Event("job.overlapped", "warning",
    "A stuck attempt was failed while its code still ran: it may overlap the next.", (*_JOB, "over_seconds"))
TRACING_FAILED: Final = Event("tracing.failed", "warning",
    "OpenTelemetry raised: attempts may have no spans. Told once; no job is touched.", ("error",))
JOB_CANCEL_REQUESTED: Final = Event("job.cancel_requested", "info",
    "A running job was asked to end.", (*_JOB, "reason"))
PROGRESS_REFUSED: Final = Event("progress.refused", "warning", "Progress of a former claim was not stored.",
    _JOB)
FLUSH_COMMITTED: Final = Event("flush.committed", "debug", "Outcomes were committed together.",
    ("jobs", "seconds"))
FLUSH_FAILED: Final = Event("flush.failed", "warning", "Outcomes are kept and sent again.", ("jobs", "error"))
FLUSH_SPLIT: Final = Event("flush.split", "warning",
    "The database refused a value: the batch was split round it.", ("jobs", "error"))
RESULT_REPLACED: Final = Event("result.replaced", "warning",
    "A result or error could not be stored; a stand-in was.", (*_JOB, "reason"))
JOB_DEDUPLICATED: Final = Event("job.deduplicated", "info",
    "An active job has this key already; none was created.", ("job_id", "job_type", "dedupe_key"))

# Duties: done once in the fleet, by whoever comes first.
JOBS_RESCUED: Final = Event("jobs.rescued", "warning", "Jobs of dead owners run again.",
    ("jobs", "dead", "reason"))
JOBS_FORGOTTEN: Final = Event("jobs.forgotten", "warning",
    "The server has lost the ends of these jobs, as a standby may that was promoted: they run again.", ("jobs",))
JOB_STRANDED: Final = Event("job.stranded", "error",
    "The database refuses to move this row: it stays, is tried again, and stops no other.", ("action", "row", "error"))
JOBS_PROMOTED: Final = Event("jobs.promoted", "debug", "Scheduled jobs became due.", ("jobs",))
UNKNOWN_TYPE_FAILED: Final = Event("unknown_type.failed", "warning",
    "No live instance serves this type: its jobs fail.", ("job_type", "jobs", "dead"))
DUTY_TAKEN: Final = Event("duty.taken", "debug", "This instance does a duty for the fleet.", ("duty",))
DUTY_FAILED: Final = Event("duty.failed", "warning", "A duty could not be done this time.", ("duty", "error"))
HISTORY_PRUNED: Final = Event("history.pruned", "info", "Old rows were removed.",
    ("table", "rows", "seconds"))
RING_EMPTIED: Final = Event("ring.emptied", "info", "A slot of the finished jobs was emptied.",
    ("slot", "rows"))
RING_REFUSED: Final = Event("ring.refused", "warning", "A slot can't be emptied yet; tried again.",
    ("slot", "reason"))

# Alerts on their way out.
ALERT_OPENED: Final = Event("alert.opened", "info", "Something happened that people should hear of.",
    ("alert_id", "kind", "subject", "title"))
ALERT_FOLDED: Final = Event("alert.folded", "debug", "Events joined an open alert.",
    ("alert_id", "kind", "count"))
ALERT_RESOLVED: Final = Event("alert.resolved", "info",
    "Nothing more has happened for a while, or all of its jobs were requeued or removed: the next is told anew.",
    ("alert_id", "kind", "occurrences"))
ALERT_UNTOLD: Final = Event("alert.untold", "error",
    "An alert could not be written as a message; tried twice more, then written without its details.",
    ("alert_id", "kind", "error"))
ALERT_TOLD: Final = Event("alert.told", "warning", "What a sink of kind log says: an alert in one line.",
    ("sink", "delivery_id", "message", "alert_id", "kind", "severity", "title", "subject", "job_type", "job_id",
     "occurrences", "first_seen", "advice", "error", "attempts", "resolved_reason", "environment"))
ALERT_UNFOLDED: Final = Event("alert.unfolded", "error",
    "Events could not be folded; they are counted in an alert that says so, or tried again later if `rows` is 0.",
    ("dedupe_key", "rows", "error"))
RULE_FAILED: Final = Event("rule.failed", "warning", "A rule could not be evaluated; it is at its next turn.",
    ("rule", "error"))
OUTBOX_DELIVERED: Final = Event("outbox.delivered", "info", "A sink took an alert.",
    ("sink", "alert_id", "kind", "attempt", "seconds"))
OUTBOX_FAILED: Final = Event("outbox.failed", "warning", "A sink did not take an alert; tried again.",
    ("sink", "alert_id", "kind", "attempt", "error", "next_try_in"))
OUTBOX_GAVE_UP: Final = Event("outbox.gave_up", "error", "A sink never took an alert; it is not tried again.",
    ("sink", "alert_id", "kind", "attempt", "error"))
OUTBOX_MERGED: Final = Event("outbox.merged", "warning",
    "Messages that had waited too long for a sink became one.", ("sink", "messages"))
OUTBOX_BARED: Final = Event("outbox.bared", "warning",
    "A message could not be rendered, or was refused as it is; the next try is without its details.",
    ("sink", "alert_id", "kind", "attempt", "error"))
OUTBOX_STEP_FAILED: Final = Event("outbox.step_failed", "error",
    "A step of the dispatcher failed for a reason that nobody thought of; it is taken again, and the others go on.",
    ("step", "error"))
SINK_CLOSED: Final = Event("sink.closed", "error",
    "A sink is gone, or refused everything for long: nothing is sent to it until a restart; what waits is kept.",
    ("sink", "error"))
SINK_OPENED: Final = Event("sink.opened", "info",
    "A sink that was closed is tried again: after a start, or as its address is another.", ("sink",))
SINK_UNBUILT: Final = Event("sink.unbuilt", "error", "A sink could not be made: what waits for it is kept.",
    ("sink", "error"))

# The heartbeat for somebody outside.
HEARTBEAT_UNHEARD: Final = Event("heartbeat.unheard", "warning",
    "Nobody answered the heartbeat; told once, until somebody does.", ("error",))
HEARTBEAT_HEARD: Final = Event("heartbeat.heard", "info", "Somebody answers the heartbeat again.")

# HTTP.
HTTP_STARTED: Final = Event("http.started", "info", "Probes and metrics are served.", ("url", "host", "port"))
HTTP_MOVED: Final = Event("http.moved", "info", "The wanted port is taken; the next free one is used.",
    ("wanted", "port"))
HTTP_STOPPED: Final = Event("http.stopped", "debug", "The HTTP server is closed.", ("seconds",))

# fmt: on

EVENTS: Final[tuple[Event, ...]] = tuple(entry for entry in list(vars().values()) if isinstance(entry, Event))
