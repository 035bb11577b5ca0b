"""Where events are emitted and who hears of them.

Invariant: `emit` may be called from any thread and never raises, so that saying something can't break what is
being done; a subscriber that fails costs its own view only, and is counted. What the events mean is in
`telemetry.events`.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Mapping
from threading import Lock

from wakeful.telemetry.events import Event
from wakeful.telemetry.redaction import Redactor

Subscriber = Callable[[Event, Mapping[str, object]], None]


class Telemetry:
    """The bus of one process.

    `strict`, for tests, raises for a field that is not in the catalogue, and for a subscriber. `redactor`
    knows the secrets of the process: whoever stores or shows a foreign text asks it first.
    """

    __slots__ = ("_lock", "_strict", "_subscribers", "failures", "redactor")

    def __init__(self, *, strict: bool = False, redactor: Redactor | None = None) -> None:
        self.redactor = redactor or Redactor()
        self.failures = 0
        self._strict = strict
        self._lock = Lock()
        self._subscribers: tuple[Subscriber, ...] = ()

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber` for each event from now on, in the emitting thread; gives the call that ends it."""
        with self._lock:
            self._subscribers = (*self._subscribers, subscriber)
        return lambda: self._unsubscribe(subscriber)

    def emit(self, event: Event, **fields: object) -> None:
        """Tell all subscribers. An exception among the fields is shown with its traceback, without secrets."""
        if self._strict:
            _refuse_unknown_fields(event, fields)
        for subscriber in self._subscribers:
            try:
                subscriber(event, fields)
            except Exception:  # noqa: BLE001 - a view of an event may not break what it is about
                self._note_failure()

    def _unsubscribe(self, subscriber: Subscriber) -> None:
        with self._lock:
            self._subscribers = tuple(known for known in self._subscribers if known is not subscriber)

    def _note_failure(self) -> None:
        if self._strict:
            raise  # noqa: PLE0704 - called from the except clause above only
        with self._lock:
            self.failures += 1
            first = self.failures == 1
        if first and sys.stderr is not None:
            sys.stderr.write(self.redactor.text(traceback.format_exc()))


def _refuse_unknown_fields(event: Event, fields: Mapping[str, object]) -> None:
    unknown = sorted(set(fields) - set(event.fields))
    if unknown:
        raise ValueError(
            f"{event.name} has no field {', '.join(unknown)}: add it to telemetry.events, or drop it"
        )
