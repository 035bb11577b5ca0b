"""Remembers the latest events, and lets a caller wait for one: what tests do instead of sleeping.

Invariant: an event that came before the wait began counts; a wait is bounded. Live pages use their own
subscriber.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from threading import Lock
from uuid import UUID

from wakeful.telemetry.events import Event

KEPT = 10_000


class Recorder:
    """A subscriber of `Telemetry`. Thread-safe; `seen` is for coroutines."""

    __slots__ = ("_events", "_lock", "_waiters")

    def __init__(self) -> None:
        self._events: deque[tuple[Event, dict[str, object]]] = deque(maxlen=KEPT)
        self._waiters: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        self._lock = Lock()

    def __call__(self, event: Event, fields: Mapping[str, object]) -> None:
        """Take one event in."""
        with self._lock:
            self._events.append((event, {name: _shown(value) for name, value in fields.items()}))
            waiters = tuple(self._waiters)
        for loop, changed in waiters:
            if not loop.is_closed():
                loop.call_soon_threadsafe(changed.set)

    def of(self, event: Event, **fields: object) -> list[Mapping[str, object]]:
        """Give the fields of every remembered `event` that has these values, oldest first; an id is its text."""
        wanted = {name: _shown(value) for name, value in fields.items()}
        with self._lock:
            return [seen for known, seen in self._events if known is event and wanted.items() <= seen.items()]

    def names(self) -> list[str]:
        """Give the names of all remembered events, oldest first."""
        with self._lock:
            return [event.name for event, _ in self._events]

    async def seen(self, event: Event, *, within: float = 10.0, **fields: object) -> Mapping[str, object]:
        """Wait for an `event` with these values and give its fields; TimeoutError after `within` seconds."""
        changed = asyncio.Event()
        waiter = (asyncio.get_running_loop(), changed)
        with self._lock:
            self._waiters.add(waiter)
        try:
            async with asyncio.timeout(within):
                while not (found := self.of(event, **fields)):
                    await changed.wait()
                    changed.clear()
        except TimeoutError:
            text = f"no {event.name} with {fields} within {within} s; seen: {self.names()}"
            raise TimeoutError(text) from None
        finally:
            with self._lock:
                self._waiters.discard(waiter)
        return found[0]


def _shown(value: object) -> object:
    return str(value) if isinstance(value, UUID) else value
