"""How the ends of attempts are told: one canonical event for each, and one for all that ended alike in a flush.

Invariant: every attempt that was started is told once in either way. Metrics are fed by the second, since to emit an
event for each job cost more than to count it; the first is for logs and whoever else listens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wakeful.core.outcome import Discarded, Done, Failed, HandedBack, Snoozed
from wakeful.runtime.conclusion import DONE, Conclusion, Landing
from wakeful.runtime.holdings import identity_of
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import (
    ATTEMPTS_ENDED,
    JOB_CANCELLED,
    JOB_DIED,
    JOB_FINISHED,
    JOB_HANDED_BACK,
    JOB_LOST,
    JOB_RETRIED,
    JOB_SNOOZED,
    JOB_UNKNOWN_OUTCOME,
    Event,
)


def tell_ends(telemetry: Telemetry, settled: Sequence[tuple[Conclusion, Landing]]) -> None:
    """Tell how these attempts ended."""
    alike: dict[tuple[str, str, Event], tuple[list[float], list[float]]] = {}
    for conclusion, landing in settled:
        event = JOB_FINISHED if landing is DONE else event_of(conclusion, landing)
        if event is None:
            continue
        holding = conclusion.holding
        job = holding.job
        try:
            waits, runs = alike[job.queue, job.job_type, event]
        except KeyError:
            waits, runs = alike[job.queue, job.job_type, event] = [], []
        waits.append(holding.wait * 1000)
        runs.append(conclusion.run * 1000)
    for conclusion, landing in settled if _any_is_heard(telemetry, alike) else ():
        event = event_of(conclusion, landing)
        if event is not None and telemetry.hears(event):
            _tell(telemetry, event, conclusion, landing)
    for (queue, job_type, event), (waits, runs) in alike.items():
        telemetry.emit(
            ATTEMPTS_ENDED,
            queue=queue,
            job_type=job_type,
            outcome=event.name.partition(".")[2],
            jobs=len(waits),
            wait_ms=waits,
            run_ms=runs,
        )


def _any_is_heard(telemetry: Telemetry, alike: Iterable[tuple[str, str, Event]]) -> bool:
    return any(telemetry.hears(event) for _, _, event in alike)


def event_of(conclusion: Conclusion, landing: Landing) -> Event | None:
    """The one event that tells how an attempt ended; None for a job that was put back before it started."""
    match landing.fate:
        case "DONE":
            return JOB_FINISHED
        case "DEAD":
            return JOB_DIED
        case "CANCELLED":
            return JOB_CANCELLED
        case "lost":
            return JOB_LOST
        case "unknown":
            return JOB_UNKNOWN_OUTCOME
        case "PENDING":
            return _event_of_pending(conclusion)


def _event_of_pending(conclusion: Conclusion) -> Event | None:
    match conclusion.outcome:
        case Snoozed():
            return JOB_SNOOZED
        case HandedBack(counted=False):
            return None
        case HandedBack():
            return JOB_HANDED_BACK
        case _:
            return JOB_RETRIED


def _tell(telemetry: Telemetry, event: Event, conclusion: Conclusion, landing: Landing) -> None:
    fields: dict[str, object] = {
        **identity_of(conclusion.holding),
        "outcome": event.name.partition(".")[2],
        "wait_ms": round(conclusion.holding.wait * 1000),
        "run_ms": round(conclusion.run * 1000),
    }
    outcome = conclusion.outcome
    if isinstance(outcome, Failed):
        fields |= {"error_type": outcome.error.type, "error": outcome.error.message}
    if isinstance(outcome, Snoozed | Discarded):
        fields["error"] = outcome.reason
    if landing.fate == "PENDING":
        fields["next_run_in"] = round(landing.delay, 1)
    if isinstance(outcome, Done) and outcome.degraded:
        fields["degraded"] = list(outcome.degraded)
    telemetry.emit(event, **fields)
