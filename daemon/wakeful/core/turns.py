"""Whose turn it is: how many of the free slots each lane gets, by priority and age, so that no lane starves.

Stride scheduling. A lane has a weight by its priority (interactive 100, normal 10, batch 1), which grows with the time
that its first job has been due, by its own weight every 30 s. Each slot goes to the lane that has had least for its
weight. Invariant: with all lanes full, batch work gets at least one slot in 111 for each lane of every priority.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

WEIGHTS: Final[Mapping[str, float]] = MappingProxyType({"interactive": 100.0, "normal": 10.0, "batch": 1.0})
AGEING_SECONDS: Final = 30.0
FORGET_ABOVE: Final = 100_000
MOST_ASIDE: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """A lane that wants slots: at most `most` of them; `waiting` is the age of its first job in seconds.

    Its turn is of `chunk` slots: where jobs are short, taking turns one by one would cost a statement each.
    """

    lane_id: int
    priority: str
    waiting: float
    most: int
    chunk: int = 1

    @property
    def weight(self) -> float:
        """How much of the slots is the lane's due, relative to the others."""
        return WEIGHTS.get(self.priority, 1.0) * (1.0 + max(self.waiting, 0.0) / AGEING_SECONDS)


class Turns:
    """Remembers what each lane has had, and how far those that want slots have come. Used by one claimer.

    Dealing costs what it deals, not what there are lanes: they wait in a heap. An entry of it counts only while it says
    what the lane has had.
    """

    __slots__ = ("_had", "_heap", "_level", "_wanting")

    def __init__(self) -> None:
        self._had: dict[int, float] = {}
        self._heap: list[tuple[float, float, int]] = []
        self._level = 0.0
        self._wanting: set[int] = set()

    def share(self, slots: int, demands: Sequence[Demand]) -> list[tuple[int, int]]:
        """Give each lane its part of `slots`, as (lane id, how many), heaviest first; parts of 0 are left out."""
        by_id = {one.lane_id: one for one in demands if one.most > 0}
        self._wanting &= by_id.keys()
        for one in by_id.values():
            self.want(one)
        given = self.deal(slots, by_id.get)
        return sorted(given.items(), key=lambda part: -by_id[part[0]].weight)

    def want(self, demand: Demand) -> None:
        """Let a lane take part from now on, level with the others: while it was away it saved up no turns."""
        if demand.lane_id in self._wanting:
            return
        if len(self._had) > FORGET_ABOVE:
            self._forget()
        self._wanting.add(demand.lane_id)
        self._push(demand, max(self._had.get(demand.lane_id, 0.0), self._level))

    def deal(self, slots: int, demand_of: Callable[[int], Demand | None]) -> dict[int, int]:
        """Give `slots` away among the lanes that take part, as {lane id: how many}.

        `demand_of` is asked for those whose turn it is. A lane of which it knows nothing takes part no more.
        """
        given: dict[int, int] = {}
        full: list[Demand] = []
        while slots > 0 and self._heap and len(full) < MOST_ASIDE:
            had, _, lane_id = heapq.heappop(self._heap)
            if lane_id not in self._wanting or had != self._had[lane_id]:
                continue
            one = demand_of(lane_id)
            if one is None:
                self._wanting.discard(lane_id)
                continue
            turn = min(one.chunk, slots, one.most - given.get(lane_id, 0))
            if turn <= 0:
                full.append(one)
                continue
            given[lane_id] = given.get(lane_id, 0) + turn
            slots -= turn
            self._push(one, had + turn / one.weight)
        self._put_back(full)
        return given

    def refund(self, demand: Demand, slots: int) -> None:
        """Take slots back that a lane was given and could not use."""
        if slots and demand.lane_id in self._had:
            had = self._had[demand.lane_id] - slots / demand.weight
            if demand.lane_id in self._wanting:
                self._push(demand, had)
            else:
                self._had[demand.lane_id] = had

    def _put_back(self, full: Sequence[Demand]) -> None:
        """Those that can take no more now stay level with the others, however long that lasts."""
        while self._heap and self._is_stale(self._heap[0]):
            heapq.heappop(self._heap)
        if self._heap:
            self._level = max(self._level, self._heap[0][0])
        for one in full:
            self._push(one, max(self._had[one.lane_id], self._level))

    def _push(self, demand: Demand, had: float) -> None:
        self._had[demand.lane_id] = had
        heapq.heappush(self._heap, (had, -demand.weight, demand.lane_id))

    def _is_stale(self, entry: tuple[float, float, int]) -> bool:
        had, _, lane_id = entry
        return lane_id not in self._wanting or had != self._had[lane_id]

    def _forget(self) -> None:
        self._had = {lane_id: self._had[lane_id] for lane_id in self._wanting}
