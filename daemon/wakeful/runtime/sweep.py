"""One pass over all of `ready` that takes lost jobs back from their owners.

Invariant: rows are found by a look that locks nothing, in slices by primary key, and taken lane by lane in small
committed batches; each statement looks again whether its jobs are lost. So any number of instances may sweep at once,
and claims go on meanwhile (F25). Who is lost is said by the reaper.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import anyio

from wakeful.store import upkeep
from wakeful.store.database import Database
from wakeful.store.upkeep import LOWEST, Owned, Rescued

SLICE: Final = 5000
BATCH: Final = 500


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
    """What a pass came to. `found` counts the jobs seen of each dead instance, taken or not."""

    rescued: list[Rescued] = field(default_factory=list)
    found: Counter[int] = field(default_factory=Counter)
    complete: bool = False


async def sweep(
    database: Database,
    stop: anyio.Event,
    lost: Lost,
    result: Sweep,
    *,
    lost_limit: int,
    turned: Callable[[], None] = lambda: None,
) -> None:
    """Go over all of ready once and put what was done into `result`; ends early, and incomplete, when `stop` is set.

    `turned` is called with each statement: a pass over a great many jobs takes minutes and is no stall.
    """
    after: tuple[int, int] | None = (LOWEST, LOWEST)
    while after is not None:
        if stop.is_set():
            return
        turned()
        part = await upkeep.look_at_owned(database, after=after, rows=SLICE, grace=lost.grace or 0.0)
        for owned in part.owned:
            await _take(database, stop, lost, owned, result, lost_limit=lost_limit, turned=turned)
        after = part.end
    result.complete = not stop.is_set()


async def _take(
    database: Database,
    stop: anyio.Event,
    lost: Lost,
    owned: Owned,
    result: Sweep,
    *,
    lost_limit: int,
    turned: Callable[[], None],
) -> None:
    if owned.owner in lost.dead:
        result.found[owned.owner] += len(owned.positions)
    if not lost.names(owned):
        return
    for batch in _batches(owned):
        if stop.is_set():
            return
        turned()
        result.rescued += await upkeep.reclaim(
            database,
            batch,
            beat_seq=lost.silent.get(owned.owner),
            grace=lost.grace,
            lost_limit=lost_limit,
        )


def _batches(owned: Owned) -> Iterator[Owned]:
    for start in range(0, len(owned.positions), BATCH):
        positions: Sequence[int] = owned.positions[start : start + BATCH]
        yield Owned(lane_id=owned.lane_id, owner=owned.owner, overdue=owned.overdue, positions=positions)
