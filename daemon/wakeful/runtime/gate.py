"""Whether this process may work on this database at all: closed until its identity was looked at.

Invariant: while it is closed no job is claimed, moved, taken back or removed, and no alert is sent: a restored copy is
left as it is and tells nobody anything. The claimer reads it before each claim; the loops that keep the whole fleet's
tables, and the dispatcher, run only while it is open. `runtime.identity` opens and closes it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from wakeful.aio.wakeup import Wakeup, rung_at


class Gate:
    """Closed at first. Used on the event loop only. `on_opened` is called each time that it opens."""

    __slots__ = ("_bells", "_on_opened", "_open", "_scopes")

    def __init__(self, on_opened: Callable[[], None] = lambda: None) -> None:
        self._open = False
        self._on_opened = on_opened
        self._scopes: set[anyio.CancelScope] = set()
        self._bells: set[Wakeup] = set()

    @property
    def open(self) -> bool:
        """Whether jobs may be claimed."""
        return self._open

    def let_through(self) -> None:
        """Open it: this is the database that we belong to."""
        was, self._open = self._open, True
        if not was:
            self._on_opened()
            for bell in self._bells:
                bell.ring()

    def close(self) -> None:
        """Let nothing more through; what runs while it is open ends, but for a write that is under way."""
        self._open = False
        for scope in self._scopes:
            scope.cancel()

    async def while_open(self, stop: anyio.Event, loop: Callable[[], Awaitable[None]]) -> None:
        """Run a loop that ends at `stop`, while this is open: it is cancelled when it closes, and begun anew later."""
        while not stop.is_set():
            if not self._open:
                await self._opened(stop)
                continue
            with anyio.CancelScope() as scope:
                self._scopes.add(scope)
                try:
                    await loop()
                finally:
                    self._scopes.discard(scope)
            if not scope.cancel_called:
                return

    async def _opened(self, stop: anyio.Event) -> None:
        bell = Wakeup()
        self._bells.add(bell)
        try:
            async with rung_at(stop, bell):
                await bell.wait()
        finally:
            self._bells.discard(bell)
