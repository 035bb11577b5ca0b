"""A bell that wakes one waiting loop: many rings before it looks are one, and no ring is ever lost.

Invariant: a ring between "nothing to do" and the wait is kept; a wait that was cancelled or timed out leaves
a ring that it did not report for the next one. What was rung for is not carried: the loop looks at the truth
itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from wakeful.core.text import only_member


class Wakeup:
    """A coalescing bell for one waiter. Rung and waited for on the event loop only; not thread-safe."""

    __slots__ = ("_rung", "_waiter")

    def __init__(self) -> None:
        self._rung = False
        self._waiter: anyio.Event | None = None

    def ring(self) -> None:
        """Wake the waiter, now or at its next wait. Costs nothing where it was rung before: some ring for each job."""
        if not self._rung:
            self._rung = True
            if self._waiter is not None:
                self._waiter.set()

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait for a ring, at most `timeout` seconds;

        True if it rang. The bell is silent again before this returns.
        """
        if self._rung:
            await anyio.lowlevel.checkpoint()
        else:
            await self._sleep(timeout)
        rung, self._rung = self._rung, False
        return rung

    async def _sleep(self, timeout: float | None) -> None:
        self._waiter = anyio.Event()
        try:
            with anyio.move_on_after(timeout):
                await self._waiter.wait()
        finally:
            self._waiter = None


@asynccontextmanager
async def rung_at(stop: anyio.Event, bell: Wakeup) -> AsyncIterator[None]:
    """Let `stop` ring the bell while the block runs: a loop that rests often then just waits for its bell.

    `periodic.rest` waits for both by a task of its own each time, which takes a tenth of a millisecond.
    """
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(ring_when_set, bell, stop)
            yield
            group.cancel_scope.cancel()
    except BaseExceptionGroup as raised:
        raise only_member(raised) from None


async def ring_when_set(bell: Wakeup, event: anyio.Event) -> None:
    """Ring once `event` is set: so a stop wakes a loop that waits for its bell."""
    await event.wait()
    bell.ring()
