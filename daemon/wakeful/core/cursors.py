"""Where to look for jobs in each lane: behind what is claimed and finished already (I7).

Per lane a *cursor*, after which claims look, and a *floor*, up to which a sweep has found nothing unclaimed. Invariant:
no job lies unclaimed at or below a floor, but from a transaction that was passed over; a cursor is never above the low
water, so that what commits late lies behind it or is swept for. A claim steps over what others have locked: the sweep
finds it, too. All of it is in memory only: a lane without a cursor is looked at from its head, and begins behind what
that look has passed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

MOST_LANES: Final = 50_000


@dataclass(slots=True, kw_only=True)
class Mark:
    """What is known of one lane. `top` is the highest position that was claimed: a sweep is wanted up to there."""

    cursor: int = 0
    floor: int = 0
    top: int = 0


class Cursors:
    """The marks of all lanes that were claimed from, and which of them a sweep has not seen to the end."""

    __slots__ = ("_marks", "_moved")

    def __init__(self) -> None:
        self._marks: dict[int, Mark] = {}
        self._moved: set[int] = set()

    def forget(self) -> None:
        """Look at everything again, from the head of each lane."""
        self._marks.clear()
        self._moved.clear()

    def after(self, lane_id: int) -> int:
        """The position after which to claim from a lane."""
        mark = self._marks.get(lane_id)
        return mark.cursor if mark is not None else 0

    def known(self) -> list[tuple[int, int]]:
        """Each lane with its cursor, in the order of their ids."""
        return [(lane_id, self._marks[lane_id].cursor) for lane_id in sorted(self._marks)]

    def claimed(self, lane_id: int, last: int, low_water: int) -> None:
        """A claim took jobs up to the position `last`; `low_water` was settled when it was sent."""
        mark = self._marks.pop(lane_id, None) or self._room()
        self._marks[lane_id] = mark  # at the end: the lanes at the beginning are those that are used least
        mark.cursor = max(mark.cursor, min(last, low_water))
        mark.top = max(mark.top, last)
        self._moved.add(lane_id)

    def begin(self, lane_id: int, first: int, low_water: int, *, after: int = 0) -> None:
        """A look behind the position `after` saw the first unowned job at `first`; `low_water` was settled before.

        It locked nothing, so from the head of the lane it has seen all that a sweep would have: a claim need not walk
        over the same rows again.
        """
        position = min(first - 1, low_water)
        if position > 0 and after == 0 and lane_id not in self._marks:
            mark = self._room()
            mark.cursor = mark.floor = mark.top = position
            self._marks[lane_id] = mark

    def found(self, lane_id: int, position: int) -> None:
        """A job that nobody owns was seen at this position: no cursor may be above it."""
        mark = self._marks.get(lane_id)
        if mark is not None and position <= mark.cursor:
            mark.cursor = mark.floor = mark.top = position - 1
            self._moved.discard(lane_id)

    def unsettle(self, position: int) -> None:
        """A transaction that was passed over has ended: what it wrote lies behind this position."""
        for lane_id, mark in self._marks.items():
            if mark.floor > position:
                mark.floor = position
                self._moved.add(lane_id)

    def to_sweep(self, low_water: int) -> list[tuple[int, int]]:
        """The lanes with something between floor and cursor that no sweep has seen, each with its floor."""
        moved = ((lane_id, self._marks[lane_id]) for lane_id in sorted(self._moved))
        return [
            (lane_id, mark.floor)
            for lane_id, mark in moved
            if mark.floor < min(max(mark.top, mark.cursor), low_water)
        ]

    def swept(self, ranges: Iterable[tuple[int, int]], found: Mapping[int, int], until: int) -> list[int]:
        """Take a sweep in: its ranges, what it found, how far it looked; gives the lanes whose cursor went back."""
        back = []
        for lane_id, _ in ranges:
            mark = self._marks[lane_id]
            position = found.get(lane_id, until + 1)
            if position <= mark.cursor:
                back.append(lane_id)
            # What lies above is seen by the next claim, which says how far it went.
            mark.top = min(mark.top, position - 1) if lane_id in found else mark.top
            mark.cursor = mark.floor = position - 1
            if mark.floor >= mark.top:
                self._moved.discard(lane_id)
        return back

    @property
    def wants_sweep(self) -> bool:
        """Whether claims went further than the last sweep has seen."""
        return bool(self._moved)

    def _room(self) -> Mark:
        if len(self._marks) >= MOST_LANES:
            oldest = next(iter(self._marks))
            del self._marks[oldest]
            self._moved.discard(oldest)
        return Mark()
