"""The last mark of a handler that went quiet: written a second later, by one loop for all attempts of the process.

Invariant: what was marked and not written is on its way or waits here; an attempt that lost its job is dropped, since
its handler learns of it by its own next call.
"""

from __future__ import annotations

from contextlib import suppress
from threading import Lock

import anyio

from wakeful.aio.periodic import every
from wakeful.errors import LeaseLost
from wakeful.handlers.progress import THROTTLE_SECONDS, Progress


class TrailingWrites:
    """Attempts with progress that waits to be written. `add` may be called from any thread."""

    __slots__ = ("_lock", "_waiting")

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: dict[Progress, None] = {}

    def add(self, progress: Progress) -> None:
        """Remember an attempt; the `on_mark` of its Progress."""
        with self._lock:
            self._waiting[progress] = None

    def take(self) -> tuple[Progress, ...]:
        """Give the remembered attempts and forget them."""
        with self._lock:
            taken = tuple(self._waiting)
            self._waiting.clear()
        return taken


async def run_trailing(trailing: TrailingWrites, stop: anyio.Event) -> None:
    """Write, every second until `stop`, what attempts have marked and not written."""
    async for _ in every(THROTTLE_SECONDS, stop, jitter=0.0):
        for progress in trailing.take():
            await _flush(progress, trailing)


async def _flush(progress: Progress, trailing: TrailingWrites) -> None:
    with suppress(LeaseLost):
        await progress.flush_if_due()
        if progress.waiting:
            trailing.add(progress)
