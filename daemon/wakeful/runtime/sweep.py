"""One pass over all of `ready` that takes lost jobs back from their owners.

Invariant: rows are found by a look that locks nothing, in slices by primary key of about 50 ms, and taken lane by lane
in small committed batches; each statement looks again whether its jobs are lost. So any number of instances may sweep
at once, and claims go on meanwhile (F25). A row that the database refuses to move stops no other (R5). Who is lost is
said by the reaper.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import anyio

from wakeful.errors import DataRefused
from wakeful.runtime.halving import in_halves, tell_stranded
from wakeful.store import upkeep
from wakeful.store.database import Database
from wakeful.store.upkeep import LOWEST, Owned, Rescued

SLICE_SECONDS: Final = 0.05
FIRST_SLICE: Final = 1000
SMALLEST_SLICE: Final = 100
LARGEST_SLICE: Final = 20_000
BATCH: Final = 500
_AIM: Final = 0.5  # a slice is sized for this part of its time, since the next rows may be wider


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """Whose jobs to take.

    `dead`: instances declared dead. `silent`: live ones with a lease that is past, each with the beat that was watched.
    `known`: every instance there is; jobs of any other are orphans (None: leave them). `grace`: take jobs of anybody
    that many seconds past twice their deadline (None: leave them).
    """

    dead: Collection[int] = ()
    silent: Mapping[int, int] = field(default_factory=dict)
    known: Collection[int] | None = None
    grace: float | None = None

    def names(self, owned: Owned) -> bool:
        """Whether these jobs are to be taken."""
        if owned.owner in self.dead or owned.owner in self.silent:
            return True
        if self.known is not None and owned.owner not in self.known:
            return True
        return self.grace is not None and owned.overdue


@dataclass(slots=True, kw_only=True)
class Sweep:
    """What a pass came to. `found` counts the jobs seen of each dead instance, taken or not, but for those stranded."""

    rescued: list[Rescued] = field(default_factory=list)
    found: Counter[int] = field(default_factory=Counter)
    slices: int = 0
    complete: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweeping:
    """A pass over ready: whose jobs it takes, and what it comes to.

    `held` is awaited with each statement: a pass over a great many jobs takes seconds, and is no stall.
    """

    database: Database
    stop: anyio.Event
    lost: Lost
    lost_limit: int
    held: Callable[[], Awaitable[None]]
    result: Sweep = field(default_factory=Sweep)

    async def run(self) -> None:
        """Go over all of ready once; ends early, and incomplete, when `stop` is set."""
        after: tuple[int, int] | None = (LOWEST, LOWEST)
        rows = FIRST_SLICE
        while after is not None:
            if self.stop.is_set():
                return
            await self.held()
            began = time.monotonic()
            part = await upkeep.look_at_owned(
                self.database, after=after, rows=rows, grace=self.lost.grace or 0.0
            )
            rows = next_slice(rows, time.monotonic() - began)
            self.result.slices += 1
            for owned in part.owned:
                await self._take(owned)
            after = part.end
        self.result.complete = not self.stop.is_set()

    async def _take(self, owned: Owned) -> None:
        if owned.owner in self.lost.dead:
            self.result.found[owned.owner] += len(owned.positions)
        if not self.lost.names(owned):
            return
        for positions in _batches(owned.positions):
            if self.stop.is_set():
                return
            await self.held()
            reclaim = partial(self._reclaim, owned)
            for rescued in await in_halves(positions, reclaim, partial(self._strand, owned)):
                self.result.rescued += rescued

    async def _reclaim(self, owned: Owned, positions: Sequence[int]) -> list[Rescued]:
        return await upkeep.reclaim(
            self.database,
            replace(owned, positions=positions),
            beat_seq=self.lost.silent.get(owned.owner),
            grace=self.lost.grace,
            lost_limit=self.lost_limit,
        )

    def _strand(self, owned: Owned, position: int, error: DataRefused) -> None:
        """A job that can't be moved keeps no dead instance's row: the backstop comes by again."""
        self.result.found[owned.owner] -= 1
        tell_stranded(self.database.telemetry, "reclaim", f"lane {owned.lane_id} position {position}", error)


def next_slice(rows: int, seconds: float) -> int:
    """How many rows to look at next, where `rows` took so many seconds: twice as many at most, a quarter at least."""
    factor = max(0.25, min(2.0, _AIM * SLICE_SECONDS / max(seconds, 0.001)))
    return max(SMALLEST_SLICE, min(LARGEST_SLICE, int(rows * factor)))


def _batches(positions: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(positions), BATCH):
        yield positions[start : start + BATCH]
