"""What this process alone knows of itself, as each beat reports it: its ears, its loop, its clock.

Invariant: whoever notices something notes it here, in whatever thread, and the beat's thread takes a report: no
statement, no round trip of its own. A standstill is in the reports for five minutes, since the rules look now and then.
A clock counts as off by no more than the way to the database leaves certain. Whether it is bad is for the rules to say.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Final

from wakeful.core.alert_rules import LEAST_STANDSTILL_SECONDS
from wakeful.store.instances import Report
from wakeful.telemetry.events import LISTENER_CONNECTED, LISTENER_DEGRADED, LISTENER_LOST, Event

REMEMBERED_SECONDS: Final = 300.0
_ACTS_ON: Final = frozenset({LISTENER_CONNECTED, LISTENER_DEGRADED, LISTENER_LOST})


@dataclass(frozen=True, slots=True)
class _Standstill:
    seconds: float
    job_type: str | None
    noted_at: float


class Vitals:
    """Thread-safe. `clock` gives monotonic seconds."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._deaf_since: float | None = None
        self._standstills: dict[float, _Standstill] = {}
        self._ahead: float | None = None

    def wants(self, event: Event) -> bool:
        """Whether `on_event` does anything with this event."""
        return event in _ACTS_ON

    def on_event(self, event: Event, _fields: Mapping[str, object]) -> None:
        """Subscriber of the bus: whether notifications are heard."""
        with self._lock:
            if event is LISTENER_CONNECTED:
                self._deaf_since = None
            elif event in _ACTS_ON and self._deaf_since is None:
                self._deaf_since = self._clock()

    def cut_off(self) -> None:
        """The database did not answer a beat: that nothing is heard meanwhile is no trouble of its own."""
        with self._lock:
            if self._deaf_since is not None:
                self._deaf_since = self._clock()

    def stood_still(self, began: float, seconds: float, job_type: str | None = None) -> None:
        """The loop has not turned for so long since `began`, which tells one standstill from another."""
        if seconds < LEAST_STANDSTILL_SECONDS:
            return
        with self._lock:
            before = self._standstills.get(began)
            known = job_type if before is None else before.job_type or job_type
            self._standstills[began] = _Standstill(seconds, known, self._clock())
            self._forget()

    def compared(self, *, sent: float, received: float, server: float) -> None:
        """A beat gave the server's time; the wall clock here said `sent` before it and `received` after it."""
        unsure = (received - sent) / 2
        if unsure < 0:  # it was set meanwhile
            return
        ahead = sent + unsure - server
        sure = max(0.0, abs(ahead) - unsure)
        # To a tenth: what does not change costs the least of each beat.
        self._ahead = None if sure < LEAST_STANDSTILL_SECONDS else round(sure if ahead > 0 else -sure, 1)

    def report(self, *, free_workers: int | None) -> Report:
        """How this process is now, with so many workers free."""
        with self._lock:
            self._forget()
            worst = max(self._standstills.values(), key=lambda one: one.seconds, default=None)
            deaf = None if self._deaf_since is None else round(self._clock() - self._deaf_since, 1)
        return Report(
            deaf_for=deaf,
            blocked_for=None if worst is None else round(worst.seconds, 2),
            blocked_by=None if worst is None else worst.job_type,
            clock_ahead=self._ahead,
            free_workers=free_workers,
        )

    def _forget(self) -> None:
        now = self._clock()
        gone = [began for began, one in self._standstills.items() if now - one.noted_at > REMEMBERED_SECONDS]
        for began in gone:
            del self._standstills[began]
