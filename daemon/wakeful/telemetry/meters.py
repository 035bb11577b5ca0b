"""The catalogue of metrics: what is counted, measured and timed, and which events feed it.

Invariant: names begin with `wakeful_`, or with `process_` where every exporter calls it the same; units are seconds and
bytes, counters end in `_total`; a label is something of which there are few (never an id, a key or a text of an error),
and folds into "other" beyond a cap. A metric of an event is one entry here and no code elsewhere; what loops know is
set by them through `Metrics.gauge`. Values are kept in `metrics`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from wakeful.telemetry import events
from wakeful.telemetry.events import Event

OUTCOME: Final = "outcome"  # as a label: the event's field, or the second word of its name where it has none
# ... and where dashboards know another word for it, that one.
OUTCOMES: Final[Mapping[str, str]] = {"finished": "succeeded", "died": "dead"}

SHORT_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
LONG_SECONDS: Final = (
    *(0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 5.0, 15.0, 30.0),
    *(60.0, 180.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """Counts events; by the number in their field `amount`, where one is named."""

    name: str
    help: str
    events: tuple[Event, ...] = ()
    labels: tuple[str, ...] = ()
    amount: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """A value that is set: by a loop, or by an event to a fixed number. `fold`: what "other" is of its parts."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    events: tuple[tuple[Event, float], ...] = ()
    fold: Literal["sum", "max"] = "sum"


@dataclass(frozen=True, slots=True, kw_only=True)
class Age:
    """The seconds since it was last reset, or since the start; none while it is hidden."""

    name: str
    help: str
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """How long things took: the field `field` of the events, one number or a list, times `scale`, in seconds."""

    name: str
    help: str
    field: str
    events: tuple[Event, ...]
    buckets: tuple[float, ...]
    labels: tuple[str, ...] = ()
    scale: float = 1.0


Meter = Counter | Gauge | Age | Histogram

_DELIVERIES: Final = (events.OUTBOX_DELIVERED, events.OUTBOX_FAILED, events.OUTBOX_GAVE_UP)
_BY_TYPE: Final = ("queue", "job_type")
_CONNECTED: Final = (
    (events.DAEMON_STARTED, 1.0),
    (events.DATABASE_LOST, 0.0),
    (events.DATABASE_RESTORED, 1.0),
)
_LISTENING: Final = (
    *((events.LISTENER_CONNECTED, 1.0), (events.LISTENER_LOST, 0.0)),
    (events.LISTENER_DEGRADED, 0.0),
)

_ALERT_ERRORS: Final = (
    *(events.ALERT_UNTOLD, events.ALERT_UNFOLDED, events.OUTBOX_BARED),
    *(events.OUTBOX_STEP_FAILED, events.SINK_UNBUILT),
)

# fmt: off
METERS: Final[tuple[Meter, ...]] = (
    # The process.
    Gauge(name="wakeful_build_info", labels=("version", "schema"),
          help="Always 1; the versions of Wakeful and of its schema are its labels."),
    Gauge(name="process_start_time_seconds", help="When the process started, in seconds since 1970."),
    Counter(name="process_cpu_seconds_total", help="Seconds of processor that the process has used."),
    Gauge(name="process_resident_memory_bytes", help="Memory of the process, where the system tells."),
    Gauge(name="wakeful_ready", help="1 while this instance claims jobs."),
    Gauge(name="wakeful_phase", help="1 for the phase that the process is in.", labels=("phase",)),
    Gauge(name="wakeful_event_loop_lag_seconds", help="How late the event loop ran what was due."),
    Counter(name="wakeful_loop_blocks_total", help="Times that a handler blocked the event loop.",
            events=(events.LOOP_BLOCKED,), labels=("job_type",)),
    Counter(name="wakeful_processes_started_total", help="Processes for handlers with isolation that got ready.",
            events=(events.PROCESS_STARTED,)),
    Counter(name="wakeful_processes_ended_total", help="Processes for handlers with isolation that have ended.",
            events=(events.PROCESS_ENDED,)),
    # Jobs, as this instance runs them.
    Counter(name="wakeful_jobs_claimed_total", help="Jobs claimed.",
            events=(events.JOBS_CLAIMED,), labels=_BY_TYPE, amount="jobs"),
    Counter(name="wakeful_jobs_finished_total", help="Attempts that ended, by how.",
            events=(events.ATTEMPTS_ENDED,), labels=(*_BY_TYPE, OUTCOME), amount="jobs"),
    Histogram(name="wakeful_job_wait_seconds", help="From when a job was due until it was claimed.", field="wait_ms",
              events=(events.ATTEMPTS_ENDED,), buckets=LONG_SECONDS, labels=_BY_TYPE, scale=0.001),
    Histogram(name="wakeful_job_duration_seconds", help="How long handlers ran.", field="run_ms",
              events=(events.ATTEMPTS_ENDED,), buckets=LONG_SECONDS, labels=(*_BY_TYPE, OUTCOME), scale=0.001),
    Counter(name="wakeful_job_failures_total", help="Failed attempts, by the class of their error.",
            events=(events.JOB_RETRIED, events.JOB_DIED), labels=("job_type", "error_type")),
    Gauge(name="wakeful_worker_slots", help="How many jobs can run here at once."),
    Gauge(name="wakeful_worker_slots_used", help="How many jobs run here."),
    Gauge(name="wakeful_stuck_jobs", help="Jobs past their deadline whose code does not end."),
    Counter(name="wakeful_jobs_stuck_total", help="Jobs whose code did not end at the deadline.",
            events=(events.JOB_STUCK,), labels=("job_type",)),
    Counter(name="wakeful_jobs_overlapped_total", help="Stuck attempts failed while their code still ran.",
            events=(events.JOB_OVERLAPPED,), labels=("job_type",)),
    Counter(name="wakeful_results_replaced_total", help="Results or errors that could not be stored as they were.",
            events=(events.RESULT_REPLACED,), labels=("job_type",)),
    Counter(name="wakeful_progress_refused_total", help="Progress of former claims.",
            events=(events.PROGRESS_REFUSED,)),
    # Claiming and finishing.
    Counter(name="wakeful_claims_total", help="Claim rounds.", events=(events.LANES_CLAIMED,)),
    Counter(name="wakeful_claims_failed_total", events=(events.CLAIM_FAILED,),
            help="Claims that failed; one refused again for the same reason counts once."),
    Histogram(name="wakeful_claim_seconds", help="How long a claim round took.", field="seconds",
              events=(events.LANES_CLAIMED,), buckets=SHORT_SECONDS),
    Histogram(name="wakeful_flush_seconds", help="How long committing outcomes took.", field="seconds",
              events=(events.FLUSH_COMMITTED,), buckets=SHORT_SECONDS),
    Counter(name="wakeful_flushes_failed_total", help="Flushes sent again.", events=(events.FLUSH_FAILED,)),
    Counter(name="wakeful_flush_splits_total", help="Flushes split on a bad value.", events=(events.FLUSH_SPLIT,)),
    # The database and the listener.
    Gauge(name="wakeful_database_connected", help="1 while the database answers.", events=_CONNECTED),
    Counter(name="wakeful_database_outages_total", help="Outages that are over.", events=(events.DATABASE_RESTORED,)),
    Counter(name="wakeful_statements_retried_total", help="Statements that lost a race in the server and ran again.",
            events=(events.STATEMENT_RETRIED,)),
    Gauge(name="wakeful_listen_connected", help="1 while LISTEN works; else jobs are polled.", events=_LISTENING),
    Counter(name="wakeful_listen_losses_total", help="Lost listening connections.", events=(events.LISTENER_LOST,)),
    Counter(name="wakeful_notifications_total", help="Notifications.", events=(events.NOTIFICATION_RECEIVED,)),
    Counter(name="wakeful_notifications_ignored_total", help="Notifications that made no sense.",
            events=(events.NOTIFICATION_IGNORED,)),
    # Leases.
    Age(name="wakeful_beat_age_seconds", help="Since the last heartbeat that got through."),
    Counter(name="wakeful_beats_failed_total", help="Heartbeats that did not.", events=(events.BEAT_FAILED,)),
    Counter(name="wakeful_leases_lost_total", help="Jobs whose lease was lost while they ran here.",
            events=(events.JOB_LOST,), labels=("job_type",)),
    Counter(name="wakeful_leases_fenced_total", help="Jobs not started or interrupted for want of a heartbeat.",
            events=(events.LEASE_FENCED,), labels=("stage",)),
    Counter(name="wakeful_instance_deposed_total", help="Times this instance was taken for dead.",
            events=(events.INSTANCE_DEPOSED,)),
    Counter(name="wakeful_instances_reaped_total", help="Dead instances found.", events=(events.INSTANCE_REAPED,)),
    # Duties.
    Counter(name="wakeful_lease_rescues_total", help="Jobs taken from dead owners.",
            events=(events.JOBS_RESCUED,), labels=("reason",), amount="jobs"),
    Counter(name="wakeful_jobs_promoted_total", help="Scheduled jobs that became due.",
            events=(events.JOBS_PROMOTED,), amount="jobs"),
    Counter(name="wakeful_unknown_type_jobs_total", help="Attempts failed since no instance serves the type.",
            events=(events.UNKNOWN_TYPE_FAILED,), labels=("job_type",), amount="jobs"),
    Counter(name="wakeful_pruned_rows_total", help="Old rows removed.",
            events=(events.HISTORY_PRUNED,), labels=("table",), amount="rows"),
    Counter(name="wakeful_duties_failed_total", help="Duties that could not be done.",
            events=(events.DUTY_FAILED,), labels=("duty",)),
    # Alerts.
    Counter(name="wakeful_alerts_opened_total", help="Alerts opened.", events=(events.ALERT_OPENED,), labels=("kind",)),
    Counter(name="wakeful_alert_errors_total", events=_ALERT_ERRORS, labels=(OUTCOME,),
            help="What went wrong with an alert, or in a step of the dispatcher, by what was made of it."),
    Counter(name="wakeful_alert_deliveries_total", help="Tries to deliver an alert, by how they ended.",
            events=_DELIVERIES, labels=("sink", OUTCOME)),
    Histogram(name="wakeful_alert_delivery_seconds", help="How long a sink took to take an alert.", field="seconds",
              events=(events.OUTBOX_DELIVERED,), buckets=SHORT_SECONDS, labels=("sink",)),
    # What is read from the database, now and then, by the instance that reads it for all (`runtime.gauges`).
    Age(name="wakeful_database_gauges_age_seconds",
        help="Since the gauges of the whole database were read, in the instance that reads them."),
    Gauge(name="wakeful_queue_jobs", labels=("queue", "state"),
          help="Jobs: ready (due), running, scheduled (due later), dead; counting stops at 5000 a lane, and a table."),
    Gauge(name="wakeful_queue_oldest_ready_seconds", help="For how long the oldest due job has waited.",
          labels=("queue",), fold="max"),
    Gauge(name="wakeful_queue_paused", help="1 for a queue that is paused.", labels=("queue",), fold="max"),
    Gauge(name="wakeful_queue_deaths", labels=("queue", "window"),
          help="Dead letters of the last 10m and 24h that are still there; counting stops at 5000."),
    Gauge(name="wakeful_job_type_info", help="Always 1; who looks after jobs of a type is its label.",
          labels=("job_type", "owner"), fold="max"),
    Gauge(name="wakeful_instances", help="Instances by state.", labels=("state",)),
    Gauge(name="wakeful_alerts_open", help="Open alerts by kind.", labels=("kind",)),
    Gauge(name="wakeful_outbox_pending", help="Deliveries that wait."),
    Gauge(name="wakeful_outbox_oldest_seconds", help="For how long the oldest one has waited."),
    Gauge(name="wakeful_outbox_sink_failing_seconds", labels=("sink",), fold="max",
          help="For how long a sink has taken none of the messages that were tried, or is closed."),
    Gauge(name="wakeful_ready_dead_rows", help="Dead row versions in the hot table that vacuum has not removed yet."),
    Gauge(name="wakeful_database_oldest_snapshot_seconds",
          help="Age of the oldest transaction that keeps dead rows from being removed, where this role may see it."),
)
# fmt: on
