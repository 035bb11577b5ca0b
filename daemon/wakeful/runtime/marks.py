"""The lanes that this instance has marked hot: that it polls them closely, so that their producers notify nobody (I18).

Invariant: a mark that its instance does not keep to is taken back and the lane told to all, when it drains, and when
it has had no room for a job for a tenth of a second. What dies can take nothing back: its marks run out within two
seconds, and whoever is idle looks when they do, as `finding` knows from its last look. What the database refuses to
mark is told, and stops no claim (R5).
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Final

from wakeful.errors import DataRefused
from wakeful.runtime.refusals import Refusals
from wakeful.store import jobs, lanes
from wakeful.store.database import Database
from wakeful.store.jobs import Lane
from wakeful.telemetry.events import CLAIM_FAILED

MARK_SECONDS: Final = 2.0
AGAIN_SECONDS: Final = 0.5
FULL_SECONDS: Final = 0.1


@dataclass(slots=True, kw_only=True)
class Marks:
    """Marks to be made and made already; times are monotonic seconds.

    `busy`: lanes to be marked. `until`: when the mark of a lane may have run out. `full_since`: no room since then.
    `left`: this instance polls nothing any more. `refusals`: which are told once.
    """

    busy: dict[int, Lane] = field(default_factory=dict)
    until: dict[int, float] = field(default_factory=dict)
    marked_at: float = 0.0
    full_since: float | None = None
    left: bool = False
    refusals: Refusals = field(default_factory=Refusals)

    def in_force(self) -> list[int]:
        """Lanes with a mark of ours that may not have run out."""
        now = time.monotonic()
        self.until = {lane_id: until for lane_id, until in self.until.items() if until > now}
        return list(self.until)

    def leave(self) -> list[int]:
        """Mark nothing any more; gives the lanes that are marked."""
        self.left = True
        return self.in_force()


async def mark(marks: Marks, database: Database) -> None:
    """Say which lanes are polled, so that producers need not notify; often enough that no mark runs out meanwhile."""
    now, marks.full_since = time.monotonic(), None
    if not marks.busy or marks.left or now - marks.marked_at < AGAIN_SECONDS:
        return
    busy, marks.busy, marks.marked_at = marks.busy, {}, now
    marks.until |= dict.fromkeys(busy, math.inf)
    try:
        await jobs.mark_hot(database, list(busy.values()))
        marks.refusals.taken("mark")
    except DataRefused as error:
        if marks.refusals.is_news("mark", error):
            database.telemetry.emit(CLAIM_FAILED, error=str(error))
    finally:
        marks.until |= dict.fromkeys(busy, time.monotonic() + MARK_SECONDS)
    if marks.left:  # it drained meanwhile, and this one came after
        await _cool(database, list(busy))


async def cool_while_full(marks: Marks, database: Database) -> float:
    """Take the marks back where there has been no room for a while; gives the seconds until to come again for that."""
    lane_ids = marks.in_force()
    if not lane_ids:
        return math.inf
    now = time.monotonic()
    if marks.full_since is None:
        marks.full_since = now
    left = marks.full_since + FULL_SECONDS - now
    if left > 0:
        return left
    marks.busy.clear()
    await _cool(database, lane_ids)
    marks.until.clear()
    return math.inf


async def _cool(database: Database, lane_ids: list[int]) -> None:
    try:
        await lanes.cool_lanes(database, lane_ids)
    except DataRefused as error:  # they run out
        database.telemetry.emit(CLAIM_FAILED, error=str(error))
