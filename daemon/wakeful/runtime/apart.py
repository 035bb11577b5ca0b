"""Running an attempt in a task of its own: the one place that makes an asyncio task by hand.

Invariant: whatever a handler leaves behind in its task (context variables, a cancel scope that it entered and never
left, a cancellation that came too late) ends with that task, so that no worker carries it into the next job (F93, R8).
An anyio task group would give each task a scope of its own, and end the whole group when a handler has broken that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import Context
from typing import Any, TypeVar

T = TypeVar("T")


def apart(coroutine: Coroutine[Any, Any, T], context: Context | None = None) -> asyncio.Task[T]:
    """Give the task; it starts with the loop's next turn, in `context`, or else in a copy of the caller's."""
    return asyncio.get_running_loop().create_task(coroutine, context=context)


async def ended(task: asyncio.Task[T]) -> T | None:
    """Wait for the end of the task; None where it was cancelled before it began. Cancels it when the waiter is."""
    try:
        return await task
    except asyncio.CancelledError:
        waiter = asyncio.current_task()
        assert waiter is not None
        if waiter.cancelling() or not task.cancelled():
            raise
        return None
