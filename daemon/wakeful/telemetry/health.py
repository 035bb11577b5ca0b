"""Whether this process is alive and ready, from what its parts have said: no call, no wait, no database.

Invariant: alive means that the loops turn; an outage of the database never makes a process look dead, since a
restart would not heal it (F88). Ready means that it serves: alive, in phase `serve`, and with no reason against.
Serving this over HTTP is for `web.health`, entering phases for the supervisor.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Final, Literal

from wakeful.telemetry.events import (
    DATABASE_LOST,
    DATABASE_RESTORED,
    OUTBOX_DELIVERED,
    OUTBOX_FAILED,
    OUTBOX_GAVE_UP,
    SINK_CLOSED,
    SINK_OPENED,
    Event,
)

Phase = Literal["starting", "serve", "quiesce", "drain", "interrupt", "flush", "close"]

_OF_DATABASE: Final = frozenset({DATABASE_LOST, DATABASE_RESTORED})
_OF_SINKS: Final = frozenset({OUTBOX_DELIVERED, OUTBOX_FAILED, OUTBOX_GAVE_UP, SINK_CLOSED, SINK_OPENED})
DATABASE: Final = "database"  # the reason under which loops may stand still
PHASE_REASONS: Final[Mapping[Phase, str]] = {
    "starting": "not yet ready to claim jobs",
    "quiesce": "stopping: no job is claimed any more",
    "drain": "stopping: running jobs may finish",
    "interrupt": "stopping: running jobs are interrupted and handed back",
    "flush": "stopping: the last results and alerts are written",
    "close": "stopping: connections are closed",
}


@dataclass(slots=True)
class _Loop:
    bound: float
    turned_at: float


class Health:
    """The state that the probes show. Thread-safe. `clock` gives monotonic seconds."""

    __slots__ = ("_clock", "_lag", "_lock", "_loops", "_phase", "_reasons", "_sinks")

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._phase: Phase = "starting"
        self._reasons: dict[str, str] = {}
        self._loops: dict[str, _Loop] = {}
        self._lag = 0.0
        self._sinks: dict[str, str] = {}

    @property
    def phase(self) -> Phase:
        """The phase that the process is in."""
        return self._phase

    @property
    def lag(self) -> float:
        """How late, in seconds, the event loop ran what was due when that was last measured."""
        return self._lag

    def enter(self, phase: Phase) -> None:
        """Go on to `phase`."""
        self._phase = phase

    def set(self, key: str, text: str) -> None:
        """Give a reason why this process can't serve, such as ``set("schema", "older than 3")``."""
        with self._lock:
            self._reasons[key] = text

    def clear(self, key: str) -> None:
        """Take a reason back. When the database is back, all loops get their full bound for their next turn."""
        with self._lock:
            if self._reasons.pop(key, None) is not None and key == DATABASE:
                now = self._clock()
                for loop in self._loops.values():
                    loop.turned_at = now

    def lagged(self, seconds: float) -> None:
        """Note how late the event loop was."""
        self._lag = seconds

    @contextmanager
    def loop(self, name: str, *, bound: float) -> Iterator[Callable[[], None]]:
        """Watch a loop while the block runs: it has to call what it is given within each `bound` seconds."""
        with self._lock:
            self._loops[name] = _Loop(bound, self._clock())
        try:
            yield lambda: self.turned(name)
        finally:
            with self._lock:
                self._loops.pop(name, None)

    def turned(self, name: str) -> None:
        """Note that the loop `name` has turned; one that is not watched is nobody's concern."""
        with self._lock:
            loop = self._loops.get(name)
            if loop is not None:
                loop.turned_at = self._clock()

    def ready(self) -> tuple[bool, Mapping[str, str]]:
        """Tell whether this process serves, and the reasons why not, by key."""
        with self._lock:
            reasons = dict(self._reasons)
        if self._phase in PHASE_REASONS:
            reasons["phase"] = PHASE_REASONS[self._phase]
        stalled = self.live()[1]
        if stalled:
            reasons["loops"] = "; ".join(f"{name} {text}" for name, text in stalled.items())
        return not reasons, reasons

    def live(self) -> tuple[bool, Mapping[str, str]]:
        """Tell whether every watched loop turns, and those that do not, by name."""
        with self._lock:
            if DATABASE in self._reasons:
                return True, {}
            now = self._clock()
            stalled = {
                name: f"has not turned for {now - loop.turned_at:.1f} s (bound {loop.bound:g} s)"
                for name, loop in self._loops.items()
                if now - loop.turned_at > loop.bound
            }
        return not stalled, stalled

    def loops(self) -> Mapping[str, Mapping[str, float]]:
        """Give the watched loops by name: how long ago each turned, and within what bound it has to."""
        with self._lock:
            now = self._clock()
            return {
                name: {"seconds_ago": round(now - loop.turned_at, 3), "bound_seconds": loop.bound}
                for name, loop in self._loops.items()
            }

    def wants(self, event: Event) -> bool:
        """Whether `on_event` does anything with this event."""
        return event in _OF_DATABASE or event in _OF_SINKS

    def on_event(self, event: Event, fields: Mapping[str, object]) -> None:
        """Subscriber of the bus: losing and regaining the database, and whether sinks take alerts."""
        if event is DATABASE_LOST:
            self.set(DATABASE, f"not reachable: {fields.get('error', 'no answer')}")
        elif event is DATABASE_RESTORED:
            self.clear(DATABASE)
        elif event is OUTBOX_DELIVERED or event is SINK_OPENED:
            self._sinks.pop(str(fields.get("sink")), None)
        elif event in _OF_SINKS:
            self._sinks[str(fields.get("sink"))] = str(fields.get("error", "failed"))

    def failing_sinks(self) -> Mapping[str, str]:
        """Give the sinks whose last message here was not taken, each with why: no reason against being ready."""
        return dict(self._sinks)
