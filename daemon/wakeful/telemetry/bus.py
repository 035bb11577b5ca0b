"""Where events are emitted and who hears of them.

Invariant: `emit` may be called from any thread and never raises, so that saying something can't break what is
being done; a subscriber that fails costs its own view only, and is counted. An event that nobody wants costs one
look-up. What the events mean is in `telemetry.events`.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Final

from wakeful.telemetry.events import Event
from wakeful.telemetry.redaction import Redactor

Subscriber = Callable[[Event, Mapping[str, object]], None]
Wants = Callable[[Event], bool]

ASKED_ANEW_SECONDS: Final = 1.0


class Telemetry:
    """The bus of one process.

    `strict`, for tests, raises for a field that is not in the catalogue, and for a subscriber. `redactor`
    knows the secrets of the process: whoever stores or shows a foreign text asks it first. `clock` gives
    monotonic seconds.
    """

    __slots__ = (
        *("_asked_until", "_clock", "_listeners", "_lock", "_strict", "_subscriptions"),
        *("failures", "redactor"),
    )

    def __init__(
        self,
        *,
        strict: bool = False,
        redactor: Redactor | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.redactor = redactor or Redactor()
        self.failures = 0
        self._strict = strict
        self._clock = clock
        self._lock = Lock()
        self._subscriptions: tuple[tuple[Subscriber, Wants | None], ...] = ()
        # Who wants an event, as far as it was asked for: 90 ns an event that nobody wants, where asking takes 600.
        self._listeners: dict[Event, tuple[Subscriber, ...]] = {}
        self._asked_until = clock() + ASKED_ANEW_SECONDS

    def subscribe(self, subscriber: Subscriber, wants: Wants | None = None) -> Callable[[], None]:
        """Call `subscriber` for each event that it wants, in the emitting thread; gives the call that ends it.

        `wants` tells whether it wants an event; None: all of them. It is asked anew each second, since a level may be
        changed by anybody; so the subscriber may be called with what it wanted until then.
        """
        with self._lock:
            self._subscriptions = (*self._subscriptions, (subscriber, wants))
            self._listeners = {}  # after the subscriptions: see `_ask`
        return lambda: self._unsubscribe(subscriber)

    def hears(self, event: Event) -> bool:
        """Whether anybody wants this event: who emits one for each job asks before it gathers the fields."""
        try:
            return self._listeners[event] != ()
        except KeyError:
            return self._ask(event) != ()

    def emit(self, event: Event, **fields: object) -> None:
        """Tell those who want it. A value may be anything: it becomes text where it is shown.

        An exception among the fields is shown with its traceback, without secrets.
        """
        if self._strict:
            _refuse_unknown_fields(event, fields)
        if self._clock() >= self._asked_until:
            self._asked_until = self._clock() + ASKED_ANEW_SECONDS
            self._listeners = {}
        try:
            listeners = self._listeners[event]
        except KeyError:
            listeners = self._ask(event)
        for subscriber in listeners:
            try:
                subscriber(event, fields)
            except Exception:  # noqa: BLE001 - a view of an event may not break what it is about
                self._note_failure()

    def _ask(self, event: Event) -> tuple[Subscriber, ...]:
        """Ask all subscribers, and remember what they said.

        Without the lock, in the opposite order of `subscribe`: what is remembered too late is forgotten with the rest.
        """
        listeners = self._listeners
        wanting = tuple(subscriber for subscriber, wants in self._subscriptions if self._wanted(event, wants))
        listeners[event] = wanting
        return wanting

    def _wanted(self, event: Event, wants: Wants | None) -> bool:
        try:
            return wants is None or wants(event)
        except Exception:  # noqa: BLE001 - as for the subscriber itself; one that can't say is told
            self._note_failure()
            return True

    def _unsubscribe(self, subscriber: Subscriber) -> None:
        with self._lock:
            self._subscriptions = tuple(known for known in self._subscriptions if known[0] is not subscriber)
            self._listeners = {}

    def _note_failure(self) -> None:
        if self._strict:
            raise  # noqa: PLE0704 - called from the except clauses above only
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
