"""Keeps the cursors of this instance true: the tick that says what is settled, and the sweep behind the cursors (I7).

Invariant: both are made only while claiming goes on or something is left to see, so that an idle instance asks nothing;
a sweep takes no more than a few percent of the time, and what a transaction that was passed over has left is swept for
within two seconds. With every other server, and with every new connection, all cursors begin anew: after a crash
positions may have gone backwards (I4).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import anyio

from wakeful.core.cursors import Cursors
from wakeful.core.settling import Settling
from wakeful.errors import SchemaMismatch, StoreError
from wakeful.store import settling as store
from wakeful.store.database import Database

TICK_SECONDS: Final = 0.1
FIRST_TICK_SECONDS: Final = 0.01
SWEEP_SECONDS: Final = 1.0
LATE_SWEEP_SECONDS: Final = 2.0
LONGEST_SWEEP_PAUSE: Final = 30.0
SHARE: Final = 50.0
FULL_LOOK_SECONDS: Final = 60.0


@dataclass(slots=True, kw_only=True)
class Bearings:
    """Where each lane is looked at, and when that was checked last; times are monotonic seconds.

    `cost` is what the last sweep took, with the first claim in each lane that it sent back. `back`: those lanes.
    """

    cursors: Cursors = field(default_factory=Cursors)
    settling: Settling = field(default_factory=Settling)
    connects: int = 0
    claimed: bool = False
    late: bool = False
    ticked_at: float = 0.0
    swept_at: float = 0.0
    full_look_at: float = 0.0
    cost: float = 0.0
    back: set[int] = field(default_factory=set)

    def forget(self) -> None:
        """Begin anew, from the head of each lane."""
        self.cursors.forget()
        self.settling.forget()
        self.back.clear()
        self.late = False
        self.full_look_at = time.monotonic()

    def check(self, database: Database) -> bool:
        """Begin anew where `database` has made a new connection since the last call; True if so."""
        if self.connects == database.connects:
            return False
        self.connects = database.connects
        self.forget()
        return True

    def took(self, lane_id: int, last: int, *, low_water: int, seconds: float) -> None:
        """A claim took jobs up to the position `last`, when `low_water` was settled, in `seconds`."""
        self.claimed = True
        self.cursors.claimed(lane_id, last, low_water)
        if lane_id in self.back:
            self.back.discard(lane_id)
            self.cost += seconds

    def settled_by(self, database: Database) -> int:
        """The low water, for what a look since the last tick has seen; 0 where that may be of another life."""
        return 0 if self.check(database) else self.settling.low_water

    @property
    def restless_seconds(self) -> float | None:
        """How soon to come back although nobody asks: something is left to see; None: nothing is."""
        if self.claimed or self.cursors.wants_sweep:
            return SWEEP_SECONDS
        return LATE_SWEEP_SECONDS if self.settling.has_passed else None


async def keep_bearings(bearings: Bearings, database: Database) -> Sequence[int]:
    """Tick and sweep, as far as either is due; gives the lanes where a job lay behind the cursor."""
    bearings.check(database)
    now = time.monotonic()
    every = TICK_SECONDS if bearings.settling.low_water else FIRST_TICK_SECONDS
    wanted = bearings.settling.is_new or bearings.restless_seconds is not None
    if wanted and now - bearings.ticked_at >= every:
        await _tick_until_settled(bearings, database)
    if now - bearings.swept_at >= _pause(bearings):
        return await sweep(bearings, database)
    return ()


async def _tick_until_settled(bearings: Bearings, database: Database) -> None:
    """Tick; at the start a second time, which says what the first has settled: so no claim walks from the head."""
    if bearings.settling.is_new:
        await _open_both(database)
        await tick(bearings, database)
    await tick(bearings, database)


async def _open_both(database: Database) -> None:
    """Claims and finishes take a connection each: one made later, with the first finish, would begin all anew."""
    async with anyio.create_task_group() as group:
        for _ in range(2):
            group.start_soon(_use_one, database)


async def _use_one(database: Database) -> None:
    with suppress(StoreError, SchemaMismatch):  # the tick that follows meets it, too
        await store.look_at_transactions(database)


async def tick(bearings: Bearings, database: Database) -> None:
    """Look at what has settled, and at which of the transactions that were passed over have ended."""
    reading = await store.look_at_transactions(database)
    now = bearings.ticked_at = time.monotonic()
    if bearings.check(database) or bearings.settling.is_contradicted_by(reading):
        bearings.forget()
    late = bearings.settling.note(reading, now)
    bearings.claimed = False
    if late is not None:
        bearings.late = True
        bearings.cursors.unsettle(late)


def _pause(bearings: Bearings) -> float:
    """Seconds between two sweeps."""
    if bearings.late:
        return min(SHARE * bearings.cost, LATE_SWEEP_SECONDS)
    return min(max(SHARE * bearings.cost, SWEEP_SECONDS), LONGEST_SWEEP_PAUSE)


async def sweep(bearings: Bearings, database: Database) -> Sequence[int]:
    """Look behind the cursors, where no sweep has been; gives the lanes where a job lay there."""
    until = bearings.settling.low_water
    ranges = bearings.cursors.to_sweep(until)
    bearings.late = False
    if not ranges:
        return ()
    began = time.monotonic()
    found = await store.sweep_lanes(database, ranges, until=until)
    bearings.swept_at = time.monotonic()
    bearings.cost = bearings.swept_at - began
    if bearings.check(database):
        return ()
    back = bearings.cursors.swept(ranges, found, until)
    bearings.back = set(back)
    return back
