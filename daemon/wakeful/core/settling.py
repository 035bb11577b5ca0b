"""Which positions are settled: every transaction that took one of them is over (I7).

Whoever takes a position has its transaction id first. So a look that reads the last position P, and then takes a
transaction id X, knows that each position up to P belongs to a transaction with an id below X; once a later look
finds none of those running, P is settled. A transaction that has been running for long would hold that up for long:
it is passed over, and remembered with the last position that it can't have taken. When it ends, what lies behind that
position is to be swept. Invariant: at or below the low water comes nothing new, but from a transaction passed over.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

LATE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One look: the last position taken, and then a transaction id, `number`.

    `running` are the ids of the transactions that were running when it began, `beyond` is above all that were over.
    """

    position: int
    number: int
    beyond: int
    running: frozenset[int]


@dataclass(slots=True, kw_only=True)
class Writer:
    """A running transaction: since when it is known, and the position behind which all lie that it can have taken."""

    since: float
    after: int
    passed: bool = False


class Settling:
    """The looks so far. `low_water` is the last settled position, 0 before there is one.

    A transaction is passed over once it has been seen running for `late` seconds.
    """

    __slots__ = ("_last", "_late", "_pending", "_writers", "low_water")

    def __init__(self, late: float = LATE_SECONDS) -> None:
        self._late = late
        self.forget()

    def forget(self) -> None:
        """Begin anew: the server is another, or has lost what was not on its disk."""
        self.low_water = 0
        self._pending: deque[Reading] = deque()
        self._last: deque[Reading] = deque(maxlen=2)
        self._writers: dict[int, Writer] = {}

    @property
    def is_new(self) -> bool:
        """Whether it takes another look to know what is settled at all."""
        return len(self._last) < 2

    @property
    def has_passed(self) -> bool:
        """Whether a transaction that is still running was passed over: its end is to be seen."""
        return any(one.passed for one in self._writers.values())

    def is_contradicted_by(self, reading: Reading) -> bool:
        """Whether positions or ids have gone backwards: then nothing that was settled holds any more (I4)."""
        return any(reading.position < one.position or reading.number <= one.number for one in self._last)

    def note(self, reading: Reading, now: float) -> int | None:
        """Take a look in, made at `now` in monotonic seconds.

        Gives the position behind which to sweep, where a transaction that was passed over has ended; else None.
        """
        late = self._ended(reading)
        for number in reading.running:
            if number not in self._writers:
                self._writers[number] = Writer(since=now, after=self._position_before(number))
        self._settle(reading, now)
        self._pending.append(reading)
        self._last.append(reading)
        return late

    def _ended(self, reading: Reading) -> int | None:
        over = [number for number in self._writers if number not in reading.running]
        ended = [self._writers.pop(number) for number in over]
        return min((one.after for one in ended if one.passed), default=None)

    def _position_before(self, number: int) -> int:
        """A position that had been taken before this transaction had its id.

        Not known from the look before the last: it was over when the last began, and this one was not running then.
        """
        return next((one.position for one in reversed(self._last) if one.number < number), 0)

    def _settle(self, reading: Reading, now: float) -> None:
        fresh = (n for n in reading.running if now - self._writers[n].since < self._late)
        first = min(fresh, default=reading.beyond)
        while self._pending and self._pending[0].number < min(first, reading.beyond):
            settled = self._pending.popleft()
            self.low_water = max(self.low_water, settled.position)
            for number in reading.running:
                if number < settled.number:
                    self._writers[number].passed = True
