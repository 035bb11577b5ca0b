"""Awaiting a coroutine in a context of its own, without a task of its own.

Invariant: what the coroutine binds to context variables ends with it (F93), although the worker that awaits it lives
on; a task for each job would cost more than the rest of it. What the coroutine awaits, cancels and times stays the
worker's task's.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Coroutine, Generator
from contextlib import suppress
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class InOwnContext(Generic[T], Awaitable[T]):
    """Await it once: steps the coroutine inside of a copy of the context that this was made in."""

    __slots__ = ("_context", "_coroutine")

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine
        self._context = contextvars.copy_context()

    def __await__(self) -> Generator[Any, Any, T]:
        step, argument = self._coroutine.send, None
        try:
            while True:
                awaited = self._context.run(step, argument)
                try:
                    argument, step = (yield awaited), self._coroutine.send
                except GeneratorExit:
                    self._coroutine.close()
                    raise
                except BaseException as raised:  # noqa: BLE001 -- a cancellation, most of all, is the coroutine's
                    argument, step = raised, self._coroutine.throw
        except StopIteration as returned:
            value: T = returned.value
            return value


async def swallow_cancellation(worker: asyncio.Task[object]) -> None:
    """Clear cancellations of a handler that has ended: its own of its task, or one that came as it ended.

    A cancellation of the daemon's own is anyio's, and comes again.
    """
    while worker.cancelling():
        worker.uncancel()
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(0)
