"""The pruner: removes what is past its retention, and what its job has left behind.

Invariant: only what has ended is removed, in small batches of a transaction each, by any instance, in a bounded time a
turn (F94); finished jobs go slot by slot, by TRUNCATE, never row by row (I17). No waiting or running job is touched. A
row that the database refuses to remove stops no other, and no table another (R5).
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeVar
from uuid import UUID

import anyio

from wakeful.core.settings import DAY, HistorySettings
from wakeful.errors import DataRefused
from wakeful.runtime.duties import Duty, run_duties
from wakeful.runtime.halving import tell_stranded
from wakeful.store import upkeep
from wakeful.store.database import Database
from wakeful.store.upkeep import LOWEST, NIL, Pruned
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import HISTORY_PRUNED, RING_EMPTIED, RING_REFUSED

BATCH: Final = 500
AUDIT_SECONDS: Final = 365 * DAY
LANE_SECONDS: Final = 7 * DAY
INTERVAL: Final = 60.0
PRUNE_INTERVAL: Final = 300.0
TURN_SECONDS: Final = 10.0
_HISTORY: Final = HistorySettings()

Batched = Callable[[Database, float, int], Awaitable[int]]
Key = TypeVar("Key", UUID, int)


class Walked(Protocol[Key]):
    """A statement that goes through a table in slices."""

    def __call__(
        self, database: Database, after: Key, limit: int, *, only_look: bool = False
    ) -> Awaitable[Pruned[Key]]:
        """Remove a slice behind `after`, or only say where it would end."""


async def run_pruner(
    database: Database,
    stop: anyio.Event,
    *,
    telemetry: Telemetry | None = None,
    history: HistorySettings = _HISTORY,
    interval: float = INTERVAL,
) -> None:
    """Remove what is past the history about every `interval` seconds, until `stop` is set."""
    duties = (
        ring_duty(database, telemetry=telemetry, history=history, interval=interval),
        prune_duty(database, telemetry=telemetry, history=history, interval=interval),
    )
    await run_duties(database, stop, duties, telemetry=telemetry, interval=interval)


def ring_duty(
    database: Database,
    *,
    telemetry: Telemetry | None = None,
    history: HistorySettings = _HISTORY,
    interval: float = INTERVAL,
) -> Duty:
    """Empty the slots of the ring of finished jobs that are past the history; one that is being read is tried again."""
    telemetry = telemetry or database.telemetry

    async def perform(_stop: anyio.Event) -> None:
        for slot, emptied in (await upkeep.expire_finished(database, history.finished)).items():
            if emptied:
                telemetry.emit(RING_EMPTIED, slot=slot)
            else:
                telemetry.emit(RING_REFUSED, slot=slot, reason="somebody reads it")

    return Duty(name="expire_finished", interval=interval, perform=perform)


def prune_duty(
    database: Database,
    *,
    telemetry: Telemetry | None = None,
    history: HistorySettings = _HISTORY,
    interval: float = PRUNE_INTERVAL,
) -> Duty:
    """Remove old dead letters, alerts and audit entries, reports of jobs that are gone, and rows of unused lanes."""
    pruning = _Pruning(database=database, telemetry=telemetry or database.telemetry)
    prune_lanes = partial(upkeep.prune_lanes, age=LANE_SECONDS)

    async def perform(stop: anyio.Event) -> None:
        pruning.until = time.monotonic() + TURN_SECONDS
        await pruning.dead_letters(history.dead, stop)
        await pruning.in_batches("alert", upkeep.prune_alerts, history.dead, stop)
        await pruning.in_batches("alert_outbox", upkeep.prune_outbox, history.dead, stop)
        await pruning.in_batches("audit", upkeep.prune_audit, AUDIT_SECONDS, stop)
        pruning.progress_after = (
            await pruning.walk("progress", upkeep.prune_progress, pruning.progress_after, stop) or NIL
        )
        pruning.log_after = (
            await pruning.walk("job_log", upkeep.prune_job_log, pruning.log_after, stop) or NIL
        )
        lanes_after = await pruning.walk("lane", prune_lanes, pruning.lanes_after, stop)
        pruning.lanes_after = LOWEST if lanes_after is None else lanes_after

    return Duty(name="prune", interval=interval, perform=perform)


@dataclass(slots=True, kw_only=True)
class _Pruning:
    """A pruner's memory: when its turn is over, and where its walks go on in the next one."""

    database: Database
    telemetry: Telemetry
    until: float = 0.0
    progress_after: UUID = NIL
    log_after: UUID = NIL
    lanes_after: int = LOWEST

    def is_over(self, stop: anyio.Event) -> bool:
        return stop.is_set() or time.monotonic() >= self.until

    async def in_batches(self, table: str, prune: Batched, age: float, stop: anyio.Event) -> None:
        began, rows, full = time.monotonic(), 0, True
        try:
            while full and not self.is_over(stop):
                removed = await prune(self.database, age, BATCH)
                rows += removed
                full = removed == BATCH
        except DataRefused as error:
            self._strand(table, "one of the oldest", error)
        self._tell(table, rows, began)

    async def dead_letters(self, age: float, stop: anyio.Event) -> None:
        """Remove old dead letters; where one is refused, fewer at once, until it stands alone and is left."""
        began, rows, at_once, full = time.monotonic(), 0, BATCH, True
        refused: list[UUID] = []
        while full and not self.is_over(stop):
            try:
                removed = await upkeep.prune_dead(self.database, age, at_once, leave=refused)
            except DataRefused as error:
                if at_once == 1 and (job_id := await upkeep.find_old_dead(self.database, age, leave=refused)):
                    refused.append(job_id)
                    self._strand("dead", str(job_id), error)
                at_once = max(1, at_once // 2)
                continue
            rows, full = rows + removed, removed == at_once
            at_once = min(BATCH, 2 * at_once)
        self._tell("dead", rows, began)

    async def walk(
        self,
        table: str,
        prune: Walked[Key],
        after: Key,
        stop: anyio.Event,
    ) -> Key | None:
        """Go on from `after`; gives where the next turn does, None once the end was reached: at the beginning."""
        began, rows, at_once = time.monotonic(), 0, BATCH
        here: Key | None = after
        while here is not None and not self.is_over(stop):
            try:
                pruned = await prune(self.database, here, at_once)
                at_once = min(BATCH, 2 * at_once)
            except DataRefused as error:
                at_once //= 2
                if at_once:
                    continue
                pruned, at_once = await prune(self.database, here, 1, only_look=True), 1
                self._strand(table, str(pruned.end), error)
            rows, here = rows + pruned.rows, pruned.end
        self._tell(table, rows, began)
        return here

    def _strand(self, table: str, row: str, error: DataRefused) -> None:
        tell_stranded(self.telemetry, f"prune {table}", row, error)

    def _tell(self, table: str, rows: int, began: float) -> None:
        if rows:
            seconds = round(time.monotonic() - began, 3)
            self.telemetry.emit(HISTORY_PRUNED, table=table, rows=rows, seconds=seconds)
