"""The rhythm of the loops: a turn at once, then one after each rest, until the stop event is set.

Invariant: a stop ends a rest at once, and no turn begins after it. The rest is counted from the end of a
turn, so that a slow turn is never followed by a burst. What a turn does, and what it does about an outage, is
the loop's own.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator

import anyio

from wakeful.aio.wakeup import Wakeup


async def every(
    interval: float, stop: anyio.Event, wakeup: Wakeup | None = None, jitter: float = 0.2
) -> AsyncIterator[None]:
    """Yield at once, then after each rest of `interval` seconds, until `stop` is set.

    `jitter` takes up to that fraction off a rest, so that `interval` is its upper bound; `wakeup` cuts it
    short.
    """
    while not stop.is_set():
        yield
        await rest(stop, wakeup, interval * (1 - jitter * random.random()))


async def pause(stop: anyio.Event, seconds: float) -> bool:
    """Wait `seconds` or until `stop` is set; True if it is."""
    with anyio.move_on_after(seconds):
        await stop.wait()
    return stop.is_set()


async def rest(stop: anyio.Event, wakeup: Wakeup | None, seconds: float) -> None:
    """Wait `seconds`, or until `stop` is set or `wakeup` rings."""
    if wakeup is None:
        await pause(stop, seconds)
        return
    async with anyio.create_task_group() as group:
        group.start_soon(cancel_when_set, stop, group.cancel_scope)
        await wakeup.wait(seconds)
        group.cancel_scope.cancel()


async def cancel_when_set(event: anyio.Event, scope: anyio.CancelScope) -> None:
    """Cancel `scope` once `event` is set."""
    await event.wait()
    scope.cancel()
