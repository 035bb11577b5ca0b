"""Whose turn it is: how many of the free slots each lane gets, by priority and age, so that no lane starves.

Stride scheduling. A lane has a weight by its priority (interactive 100, normal 10, batch 1), which grows with the time
that its first job has been due, by its own weight every 30 s. Each slot goes to the lane that has had least for its
weight. Invariant: with all lanes full, batch work gets at least one slot in 111 for each lane of every priority.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

WEIGHTS: Final[Mapping[str, float]] = MappingProxyType({"interactive": 100.0, "normal": 10.0, "batch": 1.0})
AGEING_SECONDS: Final = 30.0
FORGET_ABOVE: Final = 20_000


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
    """Remembers what each lane has had, and how far those that wanted slots have come. Used by one claimer."""

    __slots__ = ("_had", "_level", "_wanting")

    def __init__(self) -> None:
        self._had: dict[int, float] = {}
        self._level = 0.0
        self._wanting: frozenset[int] = frozenset()

    def share(self, slots: int, demands: Sequence[Demand]) -> list[tuple[int, int]]:
        """Give each lane its part of `slots`, as (lane id, how many), heaviest first; parts of 0 are left out."""
        # Heaviest first: of lanes that are level, it has the first slot.
        wanting = sorted((one for one in demands if one.most > 0), key=lambda one: -one.weight)
        given = dict.fromkeys((one.lane_id for one in wanting), 0)
        self._admit(wanting)
        queue = [(self._had[one.lane_id], n) for n, one in enumerate(wanting)]
        heapq.heapify(queue)
        while slots > 0 and queue:
            had, n = heapq.heappop(queue)
            one = wanting[n]
            turn = min(one.chunk, slots, one.most - given[one.lane_id])
            given[one.lane_id] += turn
            slots -= turn
            self._had[one.lane_id] = had + turn / one.weight
            if given[one.lane_id] < one.most:
                heapq.heappush(queue, (self._had[one.lane_id], n))
        self._level = max(self._level, min((self._had[one.lane_id] for one in wanting), default=0.0))
        return [(one.lane_id, given[one.lane_id]) for one in wanting if given[one.lane_id]]

    def refund(self, demand: Demand, slots: int) -> None:
        """Take slots back that a lane was given and could not use."""
        if demand.lane_id in self._had:
            self._had[demand.lane_id] -= slots / demand.weight

    def _admit(self, wanting: Sequence[Demand]) -> None:
        """A lane that was away, or could take nothing, starts level with the others: it can't save up turns."""
        if len(self._had) > FORGET_ABOVE:
            self._had.clear()
            self._level = 0.0
        for one in wanting:
            if one.lane_id not in self._wanting or one.lane_id not in self._had:
                self._had[one.lane_id] = max(self._had.get(one.lane_id, 0.0), self._level)
        self._wanting = frozenset(one.lane_id for one in wanting)
