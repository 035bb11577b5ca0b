"""What the daemon under the demo says of itself that a newcomer should see: the events behind a few lines.

Invariant: events come from any thread, and are told by the loop that asks. The whole log is in its file.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from wakeful.cli.demo.entries import Entry, note
from wakeful.cli.demo.paint import line, span
from wakeful.telemetry.events import (
    ALERT_FOLDED,
    ALERT_TOLD,
    DAEMON_CRASHED,
    DATABASE_LOST,
    DATABASE_RESTORED,
    HTTP_MOVED,
    JOBS_RESCUED,
    STOP_HURRIED,
    STOP_REQUESTED,
    Event,
)

Fields = Mapping[str, object]


class News:
    """Gathers entries from events until they are told."""

    def __init__(self) -> None:
        self._waiting: deque[Entry] = deque()
        self._is_away = False
        self.alerts = 0

    def on_event(self, event: Event, fields: Fields) -> None:
        """Hear of an event; one that nobody needs to see is passed over."""
        tell = _TOLD.get(event.name)
        if tell is not None and self._is_new(event):
            self._waiting.append(tell(fields))
        if event in (ALERT_TOLD, ALERT_FOLDED):
            self.alerts += 1

    def take(self) -> list[Entry]:
        """Give what came since the last call."""
        taken: list[Entry] = []
        while self._waiting:
            taken.append(self._waiting.popleft())
        return taken

    def _is_new(self, event: Event) -> bool:
        """Whether this has not been told: the demo's own connections meet an outage as well as the daemon's."""
        if event not in (DATABASE_LOST, DATABASE_RESTORED):
            return True
        was_away, self._is_away = self._is_away, event is DATABASE_LOST
        return was_away != self._is_away


def _alert(fields: Fields) -> Entry:
    told = line(
        span("ALERT ", "bad"),
        span(fields["kind"], "bold"),
        f": {fields['title']}",
        span(f" (sink {fields['sink']})", "dim"),
    )
    return note(
        "alert.told", told, **_named(fields, "sink", "kind", "title", "subject", "job_type", "job_id")
    )


def _alert_again(fields: Fields) -> Entry:
    told = line(
        span("ALERT ", "bad"),
        span(fields["kind"], "bold"),
        " once more: counted in the alert that is open, told already",
    )
    return note("alert.folded", told, **_named(fields, "kind", "count"))


def _lost(fields: Fields) -> Entry:
    told = line(span("the database is away", "warn"), f", waiting for it: {fields['error']}")
    return note("database.lost", told, **_named(fields, "error"))


def _restored(fields: Fields) -> Entry:
    told = line(
        span("the database is back", "good"), f" after {fields['seconds']} s; no job was charged for it"
    )
    return note("database.restored", told, **_named(fields, "seconds"))


def _moved(fields: Fields) -> Entry:
    told = line(f"port {fields['wanted']} is taken: using {fields['port']}")
    return note("http.moved", told, **_named(fields, "wanted", "port"))


def _rescued(fields: Fields) -> Entry:
    jobs = fields["jobs"]
    told = line(f"{jobs} {'job' if jobs == 1 else 'jobs'} of a process that died taken back; they run again")
    return note("jobs.rescued", told, **_named(fields, "jobs", "dead"))


def _stopping(_fields: Fields) -> Entry:
    told = line(
        span("stopping", "bold"),
        ": running jobs finish first, the rest waits for the next run (again: hand them back)",
    )
    return note("stop.requested", told)


def _hurried(_fields: Fields) -> Entry:
    return note("stop.hurried", line("in a hurry: running jobs are interrupted and handed back"))


def _crashed(fields: Fields) -> Entry:
    told = line(span("the daemon failed as it never should", "bad"), f": {fields['error']}")
    return note("daemon.crashed", told, error=str(fields["error"]))


def _named(fields: Fields, *names: str) -> dict[str, object]:
    return {name: fields.get(name) for name in names}


_TOLD: Final[Mapping[str, Callable[[Fields], Entry]]] = {
    ALERT_TOLD.name: _alert,
    ALERT_FOLDED.name: _alert_again,
    DATABASE_LOST.name: _lost,
    DATABASE_RESTORED.name: _restored,
    HTTP_MOVED.name: _moved,
    JOBS_RESCUED.name: _rescued,
    STOP_REQUESTED.name: _stopping,
    STOP_HURRIED.name: _hurried,
    DAEMON_CRASHED.name: _crashed,
}
