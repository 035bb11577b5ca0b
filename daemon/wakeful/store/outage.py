"""The one state of this process towards its database: there, or away since when, and when to try again.

Invariant: while the database is away there is one attempt to connect at a time, with capped, jittered backoff, however
many loops want it; the first failure and the recovery are told, and a line a minute in between. Where it answers and
refuses some statements, as with a full disk, it is back when these go through, not when others do.
"""

from __future__ import annotations

import random
import time
from typing import Final

import anyio

from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import DATABASE_LOST, DATABASE_RESTORED

FIRST_PAUSE_SECONDS: Final = 0.5
LONGEST_PAUSE_SECONDS: Final = 5.0
REMINDER_SECONDS: Final = 60.0
CALM_SECONDS: Final = 3 * LONGEST_PAUSE_SECONDS  # by then whoever was refused has tried again, or never will


class Outage:
    """Shared by everything in the process that connects. Used on one event loop only. `longest`: seconds of a pause."""

    __slots__ = (
        "_attempts",
        "_failed_at",
        "_longest",
        "_next_try",
        "_refused",
        "_since",
        "_telemetry",
        "_told_at",
        "turn",
    )

    def __init__(self, telemetry: Telemetry, *, longest: float = LONGEST_PAUSE_SECONDS) -> None:
        self.turn = anyio.Lock()
        self._longest = longest
        self._telemetry = telemetry
        self._since: float | None = None
        self._attempts = 0
        self._next_try = 0.0
        self._told_at = 0.0
        self._failed_at = 0.0
        self._refused: set[str] = set()

    @property
    def away(self) -> bool:
        """Whether the last attempt to use the database failed."""
        return self._since is not None

    @property
    def seconds_to_next_try(self) -> float:
        """How long to wait before the next attempt; 0 while the database is there."""
        return max(0.0, self._next_try - time.monotonic()) if self.away else 0.0

    def failed(self, error: BaseException, *, refused: str = "") -> None:
        """Note that a connection could not be made, or that the server refuses to run the statement `refused`.

        What fails while the next attempt is not yet due belongs to the failure before it, and postpones nothing.
        """
        now = self._failed_at = time.monotonic()
        if refused:
            self._refused.add(refused)
        first = self._since is None
        if not first and now < self._next_try:
            return
        if self._since is None:
            self._since = now
        self._attempts += 1
        pause = min(self._longest, FIRST_PAUSE_SECONDS * 2.0 ** min(self._attempts - 1, 10))
        self._next_try = now + pause * random.uniform(0.7, 1.0)
        if first or now - self._told_at >= REMINDER_SECONDS:
            self._told_at = now
            self._telemetry.emit(DATABASE_LOST, error=str(error))

    def succeeded(self, statement: str = "") -> None:
        """Note that a statement went through."""
        if self._since is None:
            return
        now = time.monotonic()
        self._refused.discard(statement)
        waits_for_others = bool(self._refused) and now - self._failed_at < CALM_SECONDS
        if waits_for_others or self.seconds_to_next_try > 0:
            return
        self._refused.clear()
        seconds = now - self._since
        attempts, self._attempts, self._since = self._attempts, 0, None
        self._telemetry.emit(DATABASE_RESTORED, seconds=round(seconds, 1), attempts=attempts)

    async def wait(self, stop: anyio.Event) -> None:
        """Wait until the next attempt is due, or until `stop` is set."""
        with anyio.move_on_after(self.seconds_to_next_try):
            await stop.wait()
