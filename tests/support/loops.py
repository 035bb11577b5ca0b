"""Runs one loop of the daemon alone, for a block: its stop event is set at the end, and it has to obey."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager

import anyio

_END_SECONDS = 10.0

Loop = Callable[[anyio.Event], Coroutine[object, object, None]]


@asynccontextmanager
async def running(loop: Loop) -> AsyncIterator[anyio.Event]:
    """Give the loop's stop event; TimeoutError where the loop does not end within ten seconds of it."""
    stop = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(loop, stop)
        try:
            yield stop
        finally:
            stop.set()
            group.cancel_scope.deadline = anyio.current_time() + _END_SECONDS
    if group.cancel_scope.cancelled_caught:
        raise TimeoutError("the loop did not end at its stop event")
