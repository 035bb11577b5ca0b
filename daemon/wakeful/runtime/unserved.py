"""Job types that nobody serves: their jobs fail loudly, or wait; the alert rule no_worker tells of both.

Invariant: only waiting jobs of a lane whose type no live, non-draining instance has served for the grace are touched,
each as one failed attempt with `UnknownJobType`, without an owner, never as a success (I9). An instance itself never
claims a type that it does not serve, so that such jobs go round in no circle. A job that the database refuses to move
stops no other (R5).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import anyio

from wakeful.core.settings import JobSettings, UnknownTypes
from wakeful.errors import DataRefused
from wakeful.runtime.duties import Duty
from wakeful.runtime.halving import Stranded, in_halves
from wakeful.store import lanes
from wakeful.store.database import Database
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import UNKNOWN_TYPE_FAILED

BATCH: Final = 500
TURN_SECONDS: Final = 10.0
_LONGEST_INTERVAL: Final = 10.0
_SHORTEST_INTERVAL: Final = 1.0
_JOBS: Final = JobSettings()


def unserved_duty(
    database: Database,
    *,
    telemetry: Telemetry | None = None,
    unknown_types: UnknownTypes = _JOBS.unknown_types,
    grace: float = _JOBS.unknown_type_grace,
    interval: float | None = None,
    on_failed: Callable[[], None] = lambda: None,
) -> Duty:
    """The duty that looks for such types; by default as often as a `grace` of seconds needs.

    `on_failed` is called where there may be alerts to send and retries to wait for.
    """

    said = telemetry or database.telemetry
    stranded = Stranded(said, action="fail_unserved")

    async def perform(stop: anyio.Event) -> None:
        until = time.monotonic() + TURN_SECONDS
        if not await lanes.mark_unserved(database) or unknown_types == "leave":
            return
        for lane in await lanes.find_unserved(database, grace):
            if stop.is_set():
                return
            failing = _Failing(database=database, lane_id=lane.lane_id, stranded=stranded)
            await failing.run(lambda: stop.is_set() or time.monotonic() >= until)
            if failing.jobs:
                jobs, dead = failing.jobs, failing.dead
                said.emit(UNKNOWN_TYPE_FAILED, job_type=lane.job_type, jobs=jobs, dead=dead)
            on_failed()

    often = min(_LONGEST_INTERVAL, max(_SHORTEST_INTERVAL, grace / 4))
    return Duty(name="serve_check", interval=interval or often, perform=perform)


@dataclass(slots=True, kw_only=True)
class _Failing:
    """One lane's jobs, batch by batch; what is left when the turn is over is for the next one."""

    database: Database
    lane_id: int
    stranded: Stranded
    jobs: int = 0
    dead: int = 0

    async def run(self, is_over: Callable[[], bool]) -> None:
        """Fail them in the lane's order, but for those that the database refuses."""
        after: int | None = 0
        while after is not None and not is_over():
            found = await lanes.find_unserved_jobs(self.database, self.lane_id, after, BATCH)
            after = max(found.values()) if len(found) == BATCH else None
            rows = [(job_id, found[job_id]) for job_id in self.stranded.without(list(found))]
            for statuses in await in_halves(rows, self._write, self._refused):
                self.jobs += len(statuses)
                self.dead += sum(status == "DEAD" for status in statuses.values())

    async def _write(self, rows: Sequence[tuple[UUID, int]]) -> dict[UUID, str]:
        return await lanes.fail_unserved(self.database, self.lane_id, [position for _, position in rows])

    def _refused(self, row: tuple[UUID, int], error: DataRefused) -> None:
        self.stranded.add(row[0], error)
