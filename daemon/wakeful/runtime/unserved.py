"""Job types that nobody serves: their jobs fail loudly, or wait; the alert rule no_worker tells of both.

Invariant: only waiting jobs of a lane whose type no live, non-draining instance has served for the grace are touched,
each as one failed attempt with `UnknownJobType`, without an owner, never as a success (I9). An instance itself never
claims a type that it does not serve, so that such jobs go round in no circle.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import anyio

from wakeful.core.settings import JobSettings, UnknownTypes
from wakeful.runtime.duties import Duty
from wakeful.store import lanes
from wakeful.store.database import Database
from wakeful.store.lanes import UnservedLane
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

    async def perform(stop: anyio.Event) -> None:
        until = time.monotonic() + TURN_SECONDS
        if not await lanes.mark_unserved(database) or unknown_types == "leave":
            return
        for lane in await lanes.find_unserved(database, grace):
            if stop.is_set():
                return
            await _fail(database, telemetry or database.telemetry, lane, stop, until=until)
            on_failed()

    often = min(_LONGEST_INTERVAL, max(_SHORTEST_INTERVAL, grace / 4))
    return Duty(name="serve_check", interval=interval or often, perform=perform)


async def _fail(
    database: Database, telemetry: Telemetry, lane: UnservedLane, stop: anyio.Event, *, until: float
) -> None:
    """Fail the jobs of a lane, batch by batch; what is left when the turn is over is for the next one."""
    jobs, dead = 0, 0
    full = True
    while full and not stop.is_set() and time.monotonic() < until:
        statuses = await lanes.fail_unserved(database, lane.lane_id, BATCH)
        jobs += len(statuses)
        dead += sum(status == "DEAD" for status in statuses.values())
        full = len(statuses) == BATCH
    if jobs:
        telemetry.emit(UNKNOWN_TYPE_FAILED, job_type=lane.job_type, jobs=jobs, dead=dead)
