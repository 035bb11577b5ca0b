"""What should happen once in a fleet: each duty is done by whichever instance moves its next time on, without a leader.

Invariant: a duty is right even when two instances do it at once, or none for a while (I22, R10); one that fails is told
and tried again when it is next due, and stops no other. What the duties do is said where they are made.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final

import anyio

from wakeful.aio.periodic import every
from wakeful.errors import DataRefused, StoreBusy, StoreUnavailable
from wakeful.store import lanes, upkeep
from wakeful.store.database import Database
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import DUTY_FAILED, DUTY_TAKEN

INTERVAL: Final = 10.0
FOLD_BATCH: Final = 1000
FOLD_INTERVAL: Final = 10.0
JOB_TYPES_INTERVAL: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Duty:
    """One duty: the fleet performs it about every `interval` seconds. `perform` ends early when its event is set."""

    name: str
    interval: float
    perform: Callable[[anyio.Event], Coroutine[Any, Any, None]]


async def run_duties(
    database: Database,
    stop: anyio.Event,
    duties: Sequence[Duty],
    *,
    telemetry: Telemetry | None = None,
    interval: float = INTERVAL,
    turned: Callable[[], None] = lambda: None,
) -> None:
    """Every `interval` seconds, take the duties that are due and do them, one after the other, until `stop` is set."""
    intervals = {duty.name: duty.interval for duty in duties}
    kept = False
    async for _ in every(interval, stop):
        turned()
        try:
            if not kept:
                await upkeep.keep_duties(database, list(intervals))
                kept = True
            taken = await upkeep.take_duties(database, intervals)
            mine = [duty for duty in duties if duty.name in taken]
            await perform_all(mine, stop, telemetry=telemetry or database.telemetry, turned=turned)
        except StoreUnavailable:
            await database.available(stop)


async def perform_all(
    duties: Sequence[Duty], stop: anyio.Event, *, telemetry: Telemetry, turned: Callable[[], None]
) -> None:
    """Do these duties, until `stop` is set. Raises StoreUnavailable when the database is away."""
    for duty in duties:
        if stop.is_set():
            return
        turned()
        await perform(duty, stop, telemetry=telemetry)


async def perform(duty: Duty, stop: anyio.Event, *, telemetry: Telemetry) -> None:
    """Do a duty. Raises StoreUnavailable when the database is away; one that met a lock or a bad row stops no other."""
    telemetry.emit(DUTY_TAKEN, duty=duty.name)
    try:
        await duty.perform(stop)
    except (StoreUnavailable, DataRefused) as error:
        telemetry.emit(DUTY_FAILED, duty=duty.name, error=str(error))
        if isinstance(error, StoreUnavailable) and not isinstance(error, StoreBusy):
            raise


def fold_duty(database: Database, *, interval: float = FOLD_INTERVAL) -> Duty:
    """Fold lanes that producers met for the first time into `lane`, so that it can be hot or closed (I10)."""

    async def perform(stop: anyio.Event) -> None:
        while not stop.is_set() and await lanes.fold_lanes(database, FOLD_BATCH) == FOLD_BATCH:
            pass

    return Duty(name="fold_lanes", interval=interval, perform=perform)


def job_types_duty(database: Database, *, interval: float = JOB_TYPES_INTERVAL) -> Duty:
    """Bring the declarations in force up to date, also when the last instance of a version has gone (I24)."""

    async def perform(_stop: anyio.Event) -> None:
        await upkeep.refresh_job_types(database)

    return Duty(name="job_types", interval=interval, perform=perform)
