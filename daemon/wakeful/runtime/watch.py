"""What a reaper knows about beats because it watched them itself, and about the server's clock.

Invariant: an instance counts as still only for time in which this reaper looked often enough to have seen a beat; after
an outage, or when the reaper itself was paused, the watch starts anew (I1). Times come from the caller: monotonic
seconds, of a clock that runs in suspend. Nothing here waits or asks; what follows from it is the reaper's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from wakeful.store.upkeep import Sight

BEATS: Final = 3
_JUMP_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class _Still:
    """A beat that has not moved since it was first seen."""

    incarnation: int
    beat_seq: int
    since: float


class Watch:
    """Which beats have not moved, and since when this reaper has watched that.

    `beat`: seconds between beats; `interval`: seconds between looks.
    """

    __slots__ = ("_answered_at", "_longest_gap", "_longest_look", "_still", "needed")

    def __init__(self, *, beat: float, interval: float) -> None:
        self.needed = BEATS * beat
        self._longest_gap = max(3 * interval, beat)
        self._longest_look = max(interval, beat)
        self._answered_at: float | None = None
        self._still: dict[int, _Still] = {}

    def restart(self) -> None:
        """Forget everything: contact with the database was lost."""
        self._answered_at = None
        self._still.clear()

    def look(self, sights: Sequence[Sight], *, asked_at: float, answered_at: float) -> dict[int, float]:
        """Take in one look; gives, by instance id, for how many seconds its beat was watched standing still."""
        if self._was_away(asked_at, answered_at):
            self._still.clear()
        self._answered_at = answered_at
        self._still = {sight.instance_id: self._seen(sight, answered_at) for sight in sights}
        return {number: max(0.0, asked_at - still.since) for number, still in self._still.items()}

    def _was_away(self, asked_at: float, answered_at: float) -> bool:
        if answered_at - asked_at > self._longest_look:
            return True
        return self._answered_at is not None and asked_at - self._answered_at > self._longest_gap

    def _seen(self, sight: Sight, answered_at: float) -> _Still:
        known = self._still.get(sight.instance_id)
        if known is not None and known.beat_seq == sight.beat_seq and known.incarnation == sight.incarnation:
            return known
        return _Still(incarnation=sight.incarnation, beat_seq=sight.beat_seq, since=answered_at)


class ServerClock:
    """How far the server's clock has jumped ahead while it was watched: so much later are its deadlines believed."""

    __slots__ = ("_most_ahead", "jumped")

    def __init__(self) -> None:
        self.jumped = 0.0
        self._most_ahead: float | None = None

    def look(self, server: float, *, asked_at: float, answered_at: float) -> None:
        """Take in the server's time, in seconds, of a statement sent and answered at these times of ours."""
        # The server read its clock somewhere between: only what can't be the way of two messages is a jump.
        if self._most_ahead is not None:
            jump = server - answered_at - self._most_ahead
            self.jumped += jump if jump > _JUMP_SECONDS else 0.0
        self._most_ahead = server - asked_at
