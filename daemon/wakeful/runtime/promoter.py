"""The promoter: moves jobs from `scheduled` to `ready` exactly when they are due.

Invariant: the wait is armed for the earliest due time, as seconds that the server counted, so that no clock of ours
matters (F07, F29). A notification of a job that is due soon re-arms it, and a retry of this instance that is nearer;
a slow poll is its backstop. Any number of instances may promote at once: a row that one has locked is left to it.
Claiming what became due is the claimer's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import anyio

from wakeful.aio.alarm import Alarm
from wakeful.aio.periodic import pause
from wakeful.errors import StoreUnavailable
from wakeful.runtime.halving import Stranded, in_halves
from wakeful.store import upkeep
from wakeful.store.database import Database
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import JOBS_PROMOTED

BATCH: Final = 500
POLL_SECONDS: Final = 5.0
PACE_SECONDS: Final = 0.02
_SHORTEST_REST: Final = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one look came to, how many seconds to wait for the next one, and how many jobs that one leaves out."""

    jobs: int
    wait: float
    skip: int = 0


async def run_promoter(
    database: Database,
    stop: anyio.Event,
    *,
    telemetry: Telemetry | None = None,
    alarm: Alarm | None = None,
    poll: float = POLL_SECONDS,
    on_promoted: Callable[[int], None] = lambda jobs: None,
    turned: Callable[[], None] = lambda: None,
) -> None:
    """Promote until `stop` is set; looks at least every `poll` seconds, and soon after each ring of `alarm`."""
    telemetry, alarm = telemetry or database.telemetry, alarm or Alarm()
    skip, stranded = 0, Stranded(telemetry)
    while not stop.is_set():
        turned()
        looked_at = time.monotonic()
        try:
            turn = await promote_due(database, poll=poll, skip=skip, stranded=stranded)
        except StoreUnavailable:
            await database.available(stop)
            continue
        skip = turn.skip
        if turn.jobs:
            telemetry.emit(JOBS_PROMOTED, jobs=turn.jobs)
            on_promoted(turn.jobs)
        await alarm.rest(stop, turn.wait)
        # Rings come as fast as producers commit; looks need not.
        await pause(stop, min(turn.wait, PACE_SECONDS) - (time.monotonic() - looked_at))


async def promote_due(
    database: Database, *, poll: float = POLL_SECONDS, skip: int = 0, stranded: Stranded | None = None
) -> Turn:
    """Promote one batch of what is due, the first `skip` jobs left out; looks again after at most `poll` seconds."""
    stranded = stranded or Stranded(database.telemetry)
    due = await upkeep.look_at_due(database, BATCH, skip=skip)
    promoted = 0
    for lane_id, job_ids in due.lanes.items():
        promote = partial(upkeep.promote, database, lane_id)
        promoted += sum(await in_halves(stranded.without(job_ids), promote, stranded.add))
    if sum(len(job_ids) for job_ids in due.lanes.values()) == BATCH:
        # There may be more. Where nothing came, somebody is at these very rows: they delay no other.
        return Turn(jobs=promoted, wait=0.0, skip=0 if promoted else skip + BATCH)
    wait = poll if due.next_in is None else min(poll, max(_SHORTEST_REST, due.next_in))
    return Turn(jobs=promoted, wait=wait)
