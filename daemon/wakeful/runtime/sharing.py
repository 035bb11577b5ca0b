"""How much may be claimed now, and from which lanes.

Invariant: never more is claimed than can start within about 50 ms: what workers that are free can start, and of types
that are known to be quick as much more as the workers get through in that time. No queue goes beyond its cap, and no
second suspect runs beside a first (I11). Every slot that is given out is a lane's turn.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    """Jobs that can start at once, and how many more of each quick type may wait, were it the only one.

    `part` of that is still to be had: the rest waits already. `others`: while quick jobs keep all workers busy, so many
    of other types may wait, else they would have to wait for ever. `low`: where the crew is to ring; -1: nowhere.
    """

    free: int
    ahead: Mapping[str, int]
    part: float
    others: int
    low: int

    @classmethod
    def of(cls, crew: Crew, pace: Pace, starts: Starts, job_types: Iterable[str]) -> Room:
        """The room that the crew has for jobs of these types."""
        started = starts.note(crew.started, time.monotonic())
        if crew.closed:
            return cls(free=0, ahead={}, part=0.0, others=0, low=-1)
        idle = max(0, crew.concurrency - crew.busy)
        ahead = {}
        for job_type in job_types:
            # The busy workers may be busy for long, so they count by what has started of late.
            soon = max(pace.ahead(job_type, idle), started)
            if jobs := min(pace.ahead(job_type, crew.concurrency), soon):
                ahead[job_type] = jobs
        others = min(started, 1 + crew.concurrency // 4) - crew.waiting_of_others(ahead)
        most = max(ahead.values(), default=0)
        part = 1.0 - max(0, crew.waiting - idle) / most if most else 0.0
        low = most // 2 if most else -1
        return cls(free=crew.free, ahead=ahead, part=part, others=max(0, others), low=low)

    @property
    def any(self) -> bool:
        """Whether it is worth a claim: a worker is free, or half of what may wait has started."""
        return self.free > 0 or self.part >= 0.5


def demand_of(lane: Lane, *, room: Room, most: int) -> Demand:
    """What a lane wants: a turn is of many jobs where they are short."""
    return Demand(
        lane_id=lane.lane_id,
        priority=lane.priority,
        waiting=lane.waiting,
        most=most,
        chunk=max(1, min(CHUNK, room.ahead.get(lane.job_type, 0))),
    )


def shares_of(
    lanes: Mapping[int, Lane], *, room: Room, turns: Turns, limits: Callable[[Lane], int]
) -> list[Share]:
    """What to claim from each lane: its turn of the free workers, and of what quick types can start soon."""

    def demand(lane_id: int) -> Demand | None:
        lane = lanes.get(lane_id)
        return None if lane is None else demand_of(lane, room=room, most=limits(lane))

    def sharing_the_free(lane_id: int) -> Demand | None:
        one = demand(lane_id)
        return one and replace(one, chunk=min(one.chunk, max(1, room.free // 2)))

    given = turns.deal(room.free, sharing_the_free)
    for lane_id, jobs in _deal_ahead(lanes, given, room=room, turns=turns, demand=demand).items():
        given[lane_id] = given.get(lane_id, 0) + jobs
    shares = []
    for lane_id, jobs in given.items():
        one = demand(lane_id)
        assert one is not None, "it was there when it was dealt to"
        turns.refund(one, max(0, jobs - MOST_AT_ONCE))
        shares.append(Share(lane=lanes[lane_id], demand=one, jobs=min(jobs, MOST_AT_ONCE)))
    return shares


def _deal_ahead(
    lanes: Mapping[int, Lane],
    given: Mapping[int, int],
    *,
    room: Room,
    turns: Turns,
    demand: Callable[[int], Demand | None],
) -> dict[int, int]:
    """Slots beyond the free workers: together no more than the workers get through in 50 ms, whatever the types."""
    part, others, more = room.part, room.others, dict[int, int]()

    def demand_ahead(lane_id: int) -> Demand | None:
        one = demand(lane_id)
        if one is None:
            return None
        most = room.ahead.get(lanes[lane_id].job_type, others)
        return replace(one, most=min(one.most - given.get(lane_id, 0), most))

    slots = max(0, int(part * max(room.ahead.values(), default=0)))
    for lane_id, jobs in turns.deal(slots, demand_ahead).items():
        one, ahead = demand(lane_id), room.ahead.get(lanes[lane_id].job_type)
        if ahead is None:
            taken = min(jobs, others)
            others -= taken
        else:
            taken = min(jobs, int(part * ahead))
            part -= taken / ahead
        assert one is not None, "it was there when it was dealt to"
        turns.refund(one, jobs - taken)
        if taken:
            more[lane_id] = taken
    return more
