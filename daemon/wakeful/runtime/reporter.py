"""The reporter: writes what running handlers report, progress documents and log lines, in the daemon's own loop.

Invariant: a handler waits for the answer to its write but never makes it, so that cancelling a handler can't cut a
write in two (R11); the writes of many handlers go together. A document is stored by the current claim only (F33).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

import anyio

from wakeful.aio.wakeup import Wakeup, ring_when_set
from wakeful.errors import DataRefused, StoreUnavailable
from wakeful.runtime.holdings import Holding, identity_of
from wakeful.store import jobs as store
from wakeful.store.database import Database
from wakeful.telemetry.events import PROGRESS_REFUSED

MOST_TOGETHER: Final = 200
TURN_SECONDS: Final = 20.0  # idle, it turns all the same: to be seen alive
KEPT_LINES: Final = 10_000
_ENDED: Final = "progress is written no more: the process is ending"

LogLine = tuple[UUID, int, int, datetime, str, str]


@dataclass(slots=True, kw_only=True, eq=False)
class _Write:
    holding: Holding
    document: str
    answered: anyio.Event = field(default_factory=anyio.Event)
    stored: bool = False
    failed: StoreUnavailable | None = None


class Reporter:
    """Collects reports. Used on the event loop only."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._writes: list[_Write] = []
        self._lines: list[LogLine] = []
        self._bell = Wakeup()
        self._ended = False

    async def write(self, holding: Holding, document: str) -> bool:
        """Store a progress document; True once it is committed, False when the claim does not hold any more.

        Raises StoreUnavailable where the database did not answer.
        """
        if self._ended:
            raise StoreUnavailable(_ENDED)
        write = _Write(holding=holding, document=document)
        self._writes.append(write)
        self._bell.ring()
        await write.answered.wait()
        if write.failed is not None:
            raise StoreUnavailable(str(write.failed)) from write.failed
        return write.stored

    async def available(self) -> None:
        """Wait until the database may be asked again."""
        await self._database.available(anyio.Event())

    def log(self, lines: Sequence[LogLine]) -> None:
        """Store the log lines of an attempt, soon."""
        self._lines.extend(lines)
        if lines:
            self._bell.ring()

    async def run(self, stop: anyio.Event, turned: Callable[[], None] = lambda: None) -> None:
        """Write until `stop` is set, and then what is left, once. After that every write is answered with a no."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(ring_when_set, self._bell, stop)
                while not stop.is_set():
                    turned()
                    await self._bell.wait(TURN_SECONDS)
                    await self._write_all(stop)
                group.cancel_scope.cancel()
        finally:
            self._refuse_the_rest()

    def _refuse_the_rest(self) -> None:
        """Let nobody wait for an answer that never comes: who waits is shielded, and would hold up the end for ever."""
        self._ended = True
        for write in self._writes:
            write.failed = StoreUnavailable(_ENDED)
            write.answered.set()
        self._writes.clear()

    async def _write_all(self, stop: anyio.Event) -> None:
        while self._writes or self._lines:
            batch = self._next_batch()
            lines, self._lines = self._lines[:MOST_TOGETHER], self._lines[MOST_TOGETHER:]
            try:
                await self._write_batch(batch)
                await self._write_lines(lines)
            except StoreUnavailable as error:
                for write in batch:
                    write.failed = None if write.answered.is_set() else error
                    write.answered.set()
                self._lines = (lines + self._lines)[-KEPT_LINES:]
                await self._database.available(stop)
                if stop.is_set():
                    return

    def _next_batch(self) -> list[_Write]:
        """The oldest writes, one a job: a statement can't store two documents of one job."""
        batch: dict[UUID, _Write] = {}
        left: list[_Write] = []
        for write in self._writes:
            if len(batch) < MOST_TOGETHER and write.holding.job_id not in batch:
                batch[write.holding.job_id] = write
            else:
                left.append(write)
        self._writes = left
        return list(batch.values())

    async def _write_batch(self, batch: Sequence[_Write]) -> None:
        if not batch:
            return
        try:
            stored = await store.write_progress(
                self._database, [(one.holding, one.document) for one in batch]
            )
        except DataRefused:
            # Documents are clean by construction; should one not be, it costs itself only.
            await self._write_one_by_one(batch)
            return
        for number, write in enumerate(batch):
            write.stored = number in stored
            if not write.stored:
                self._tell_refused(write.holding)
            write.answered.set()

    def _tell_refused(self, holding: Holding) -> None:
        self._database.telemetry.emit(PROGRESS_REFUSED, **identity_of(holding))

    async def _write_one_by_one(self, batch: Sequence[_Write]) -> None:
        for write in batch:
            try:
                write.stored = bool(
                    await store.write_progress(self._database, [(write.holding, write.document)])
                )
            except DataRefused:
                write.stored = True  # the claim holds for all we know: the handler may go on
            write.answered.set()

    async def _write_lines(self, lines: Sequence[LogLine]) -> None:
        try:
            await store.write_job_log(self._database, lines)
        except DataRefused:
            for line in lines:
                await self._write_line(line)

    async def _write_line(self, line: LogLine) -> None:
        try:
            await store.write_job_log(self._database, [line])
        except DataRefused:
            await store.write_job_log(self._database, [(*line[:5], "(a line that could not be stored)")])
