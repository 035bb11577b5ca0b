"""How much may be claimed now, and from which lanes.

Invariant: never more is claimed than can start within about 50 ms: what workers that are free can start, and of types
that are known to be quick as much more as the workers get through in that time. No queue goes beyond its cap, and no
second suspect runs beside a first (I11). Every slot that is given out is a lane's turn.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from wakeful.core.pace import Pace, Starts
from wakeful.core.turns import Demand, Turns
from wakeful.runtime.crew import Crew
from wakeful.runtime.holdings import Holdings
from wakeful.store.jobs import Lane

NO_LIMIT: Final = 1_000_000
MOST_AT_ONCE: Final = 500
CHUNK: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What this instance claims: job types (None: every type), queues (None: every one) and its caps by queue."""

    job_types: Sequence[str] | None
    queues: Sequence[str] | None
    caps: Mapping[str, int]
    lease_of: Callable[[str], float]
    shortest_lease: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A lane's part of a round: so many `jobs`, for which it was given as many slots."""

    lane: Lane
    demand: Demand
    jobs: int


@dataclass(slots=True, kw_only=True)
class Limits:
    """What may be claimed of a lane at most, by what is held; counted once and used for one round."""

    scope: Scope
    holdings: Holdings
    _held: Counter[str] | None = field(default=None, init=False)

    def most(self, lane: Lane) -> int:
        """Jobs that may be claimed of this lane."""
        most = NO_LIMIT
        if lane.queue in self.scope.caps:
            if self._held is None:
                self._held = self.holdings.by_queue()
            most = max(0, self.scope.caps[lane.queue] - self._held[lane.queue])
        if lane.suspect:
            most = 0 if self.holdings.has_suspect() else min(most, 1)
        return most


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Jobs that can start at once, and how many more of each type may wait, were it the only one.

    `part` of that is still to be had: the rest waits already. `low`: where the crew is to ring; -1: nowhere.
    """

    free: int
    ahead: Mapping[str, int]
    part: float
    low: int

    @classmethod
    def of(cls, crew: Crew, pace: Pace, starts: Starts, lanes: Iterable[Lane]) -> Room:
        """The room that the crew has for jobs of these lanes."""
        started = starts.note(crew.started, time.monotonic())
        if crew.closed:
            return cls(free=0, ahead={}, part=0.0, low=-1)
        idle = max(0, crew.concurrency - crew.busy)
        ahead = {}
        for job_type in {lane.job_type for lane in lanes}:
            # The busy workers may be busy for long, so they count by what has started of late.
            soon = max(pace.ahead(job_type, idle), started)
            ahead[job_type] = min(pace.ahead(job_type, crew.concurrency), soon)
        most = max(ahead.values(), default=0)
        part = 1.0 - max(0, crew.waiting - idle) / most if most else 0.0
        return cls(free=crew.free, ahead=ahead, part=part, low=most // 2 if most else -1)

    @property
    def any(self) -> bool:
        """Whether it is worth a claim: a worker is free, or half of what may wait has started."""
        return self.free > 0 or self.part >= 0.5


def shares_of(
    lanes: Iterable[Lane], *, room: Room, turns: Turns, limits: Callable[[Lane], int]
) -> list[Share]:
    """What to claim from each lane: its turn of the free workers, and of what quick types can start soon."""
    by_id = {lane.lane_id: lane for lane in lanes}
    demands = {
        lane_id: Demand(
            lane_id=lane_id,
            priority=lane.priority,
            waiting=lane.waiting,
            most=limits(lane),
            chunk=max(1, min(CHUNK, room.ahead.get(lane.job_type, 0))),
        )
        for lane_id, lane in by_id.items()
    }
    given = dict(turns.share(room.free, list(demands.values())))
    for lane_id, jobs in _shares_ahead(by_id, demands, given, room=room, turns=turns).items():
        given[lane_id] = given.get(lane_id, 0) + jobs
    for lane_id, jobs in given.items():
        turns.refund(demands[lane_id], max(0, jobs - MOST_AT_ONCE))
    return [
        Share(lane=by_id[lane_id], demand=demands[lane_id], jobs=min(jobs, MOST_AT_ONCE))
        for lane_id, jobs in given.items()
    ]


def _shares_ahead(
    lanes: Mapping[int, Lane],
    demands: Mapping[int, Demand],
    given: Mapping[int, int],
    *,
    room: Room,
    turns: Turns,
) -> dict[int, int]:
    """Slots beyond the free workers: together no more than the workers get through in 50 ms, whatever the types."""
    part = room.part
    slots = int(part * max(room.ahead.values(), default=0))
    quick = [
        Demand(
            lane_id=one.lane_id,
            priority=one.priority,
            waiting=one.waiting,
            most=min(one.most - given.get(one.lane_id, 0), room.ahead[lanes[one.lane_id].job_type]),
            chunk=one.chunk,
        )
        for one in demands.values()
        if room.ahead[lanes[one.lane_id].job_type]
    ]
    if slots <= 0 or not quick:
        return {}
    more = {}
    for lane_id, jobs in turns.share(slots, quick):
        ahead = room.ahead[lanes[lane_id].job_type]
        taken = min(jobs, int(part * ahead))
        part -= taken / ahead
        turns.refund(demands[lane_id], jobs - taken)
        if taken:
            more[lane_id] = taken
    return more
