"""Running attempts in tasks apart: the one place that makes an asyncio task by hand, and knows who else has hold of it.

Invariant: whatever a handler leaves behind in its task (context variables, a cancel scope that it entered and never
left, a cancellation that came too late) ends with that task, so that no worker carries it into the next job (F93, R8).
An anyio task group would give each task a scope of its own, and end the whole group when a handler has broken that.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from contextvars import Context, copy_context
from typing import Any, TypeVar
from weakref import getweakrefcount

T = TypeVar("T")


def apart(coroutine: Coroutine[Any, Any, T], context: Context | None = None) -> asyncio.Task[T]:
    """Give the task; it starts with the loop's next turn, in `context`, or else in a copy of the caller's."""
    return asyncio.get_running_loop().create_task(coroutine, context=context)


def traces_in(task: asyncio.Task[Any]) -> tuple[int, int, int, int, bool]:
    """Look at the running task: what is equal to what it was before tells that nobody has taken hold of it meanwhile.

    Whoever would cancel it later, or keeps something for it (a scope, a time-out, a group, a table by tasks), has a
    reference to it, strong or weak; whoever runs it has one at least, from its first step on.
    """
    references = sys.getrefcount(task)
    return references, getweakrefcount(task), len(task._callbacks or ()), task.cancelling(), task._must_cancel  # type: ignore[attr-defined]


def are_variables(before: Context) -> bool:
    """Whether the context variables are what they were `before`."""
    try:
        return copy_context() == before
    except Exception:  # noqa: BLE001 -- what a handler has put into a variable of ours can't be compared
        return False


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
