"""A bell with a time: its waiter sleeps until the next thing that it knows of, and is rung for a nearer one.

Invariant: who knows of something that comes later than what is waited for wakes nobody; while the waiter is looking,
everything rings, since its look may have missed it. Times are monotonic seconds.
"""

from __future__ import annotations

import math
import time

import anyio

from wakeful.aio.periodic import rest
from wakeful.aio.wakeup import Wakeup


class Alarm:
    """For one waiter. Used on the event loop only; not thread-safe."""

    __slots__ = ("_bell", "_until")

    def __init__(self) -> None:
        self._bell = Wakeup()
        self._until = math.inf

    def ring(self) -> None:
        """Wake the waiter, now or at its next wait."""
        self._bell.ring()

    def due_in(self, seconds: float) -> None:
        """Wake the waiter if something that is due in so many seconds is nearer than what it waits for."""
        if time.monotonic() + seconds < self._until:
            self._bell.ring()

    async def rest(self, stop: anyio.Event, seconds: float) -> None:
        """Wait so many seconds, or until `stop` is set or it rings."""
        self._until = time.monotonic() + seconds
        try:
            await rest(stop, self._bell, seconds)
        finally:
            self._until = math.inf
