"""Which lanes are believed to hold claimable jobs, and when to look again: one look serves many claims (I18, I19).

Invariant: a lane leaves the belief when a claim brought less than was asked for, and comes back only by a look; every
lane is looked at within one poll, however many there are and whatever was heard, and once the hot marks that were seen
have run out. Looks at all lanes take no more than a few percent of the time; a lane that somebody named is looked at by
itself. Claiming is the claimer's.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from wakeful.core.settings import PollSettings
from wakeful.errors import StoreUnavailable
from wakeful.runtime.marks import Marks
from wakeful.runtime.settling import FULL_LOOK_SECONDS, Bearings
from wakeful.runtime.sharing import Scope
from wakeful.store import jobs as store
from wakeful.store.database import Database
from wakeful.store.jobs import Lane

HOT_ROUND: Final = 20
HOT_SECONDS: Final = 4.0
MARK_MARGIN: Final = 0.1
HOT_POLL_SECONDS: Final = (0.02, 0.05)
MOST_HOT: Final = 100
MOST_FOREIGN: Final = 50_000
QUIETER: Final = 1.5
FRESH_SECONDS: Final = 0.05
SHARE: Final = 10.0
BUSY_SHARE: Final = 20.0
LONGEST_LOOK_SECONDS: Final = 1.0
_BEYOND: Final = 2**63 - 1


class Hints:
    """What was heard since the last look: lanes by name, or that anything may have come. For the event loop only."""

    __slots__ = ("everything", "lanes")

    def __init__(self) -> None:
        self.lanes: set[int] = set()
        self.everything = False

    def hear(self, lane_id: int | None) -> None:
        """Note a notification; None: it names no lane."""
        if lane_id is None or len(self.lanes) > MOST_HOT:
            self.everything = True
        else:
            self.lanes.add(lane_id)

    def take(self) -> set[int]:
        """The lanes that were named; whether anything else may have come is left to a look at everything."""
        taken, self.lanes = self.lanes, set()
        return taken

    def put_back(self, lanes: set[int]) -> None:
        """A look failed: these are to be looked at still, and so is everything: nobody knows what it would say."""
        self.lanes |= lanes
        self.everything = True


@dataclass(slots=True, kw_only=True)
class Finding:
    """What the claimer believes, with when it looked and what that took; times are monotonic seconds.

    `hot`: lanes that are polled instead of notified about, and until when. `foreign`: lanes that are not ours to claim.
    `marks`: what the database says of that. `marked_until`: when the marks that were seen there, of anybody, run out.
    `due_at`: when the next poll is due. `job_types`: of the lanes that were found. `new`: lanes that are to take part
    in the turns from now on.
    """

    hints: Hints = field(default_factory=Hints)
    lanes: dict[int, Lane] = field(default_factory=dict)
    new: list[Lane] = field(default_factory=list)
    job_types: set[str] = field(default_factory=set)
    hot: dict[int, float] = field(default_factory=dict)
    foreign: set[int] = field(default_factory=set)
    marks: Marks = field(default_factory=Marks)
    marked_until: float = -math.inf
    quiet: float = 0.0
    due_at: float = 0.0
    looked_at: float = -math.inf
    look_seconds: float = 0.0
    last_look_seconds: float = 0.0
    hot_look_at: float = 0.0

    def forget(self) -> None:
        """Believe nothing: the next turn looks at everything."""
        self.lanes.clear()
        self.hints.everything = True

    def exhausted(self, lane_id: int) -> None:
        """A claim brought less than was asked for."""
        self.lanes.pop(lane_id, None)

    def claimed(self, lane: Lane, jobs: int, waited: float) -> None:
        """A claim brought `jobs`, of which the last had waited so long."""
        now = time.monotonic()
        if lane.lane_id in self.lanes:
            self.lanes[lane.lane_id] = replace(lane, waiting=waited)
        if jobs >= HOT_ROUND and (lane.lane_id in self.hot or len(self.hot) < MOST_HOT):
            self.hot[lane.lane_id] = now + HOT_SECONDS
            self.marks.busy[lane.lane_id] = lane

    def is_hot(self, now: float) -> bool:
        """Whether some lane is polled."""
        for lane_id in [one for one, until in self.hot.items() if until <= now]:
            del self.hot[lane_id]
        return bool(self.hot)

    def may_look(self, now: float) -> bool:
        """Whether all lanes may be looked at, going by what the last such look took."""
        return now >= self.looked_at + SHARE * self.look_seconds

    def rung(self) -> None:
        """The bell rang before the poll was due: where no lane was named, that may be about any.

        Whoever works a lane off may be gone by its next job, of which nobody is notified: polls are close for a while.
        """
        self.quiet = 0.0
        if not self.hints.lanes:
            self.due_at = 0.0

    def wants_look(self, now: float, poll: PollSettings) -> bool:
        """Whether to look at all lanes: at each poll, and where anything may have come."""
        pause = max(poll.min if self.lanes else poll.max, BUSY_SHARE * self.look_seconds)
        if now >= self.looked_at + pause:
            return True
        nothing_left = not (self.lanes or self.hints.lanes) and now >= self.due_at
        return (nothing_left or self.hints.everything or self._marks_ended(now)) and self.may_look(now)

    def _marks_ended(self, now: float) -> bool:
        """Whether the marks that the last look saw have run out: whoever made them may be gone."""
        return self.looked_at < self.marked_until <= now

    def is_stale(self, now: float) -> bool:
        """Whether all lanes may be looked at, and the last such look is not of just now."""
        return now > self.looked_at + FRESH_SECONDS and self.may_look(now)

    def rest_seconds(self, poll: PollSettings, found: int) -> float:
        """How long to wait for the bell: hot lanes ring none, so they are polled, two seconds beyond their mark."""
        now = time.monotonic()
        self.quiet = poll.min if found or not self.quiet else min(self.quiet * QUIETER, poll.max)
        hot = self.is_hot(now)
        seconds = random.uniform(*HOT_POLL_SECONDS) if hot else self.quiet * random.uniform(0.8, 1.0)
        if (self.hints.everything or self.due_at == 0.0) and not self.may_look(now):
            # A look is owed, and may be made soon.
            seconds = min(seconds, self.looked_at + SHARE * self.look_seconds - now)
        if self.marked_until > self.looked_at:
            look_at = max(self.marked_until, self.looked_at + SHARE * self.look_seconds)
            seconds = min(seconds, max(look_at - now, MARK_MARGIN))
        self.due_at = now + seconds
        return seconds


async def look_everywhere(finding: Finding, bearings: Bearings, database: Database, scope: Scope) -> None:
    """Look at every lane, behind the cursors; once a minute from the heads, should anything have been missed."""
    began = time.monotonic()
    whole = began >= bearings.full_look_at + FULL_LOOK_SECONDS
    known = {} if whole else dict(bearings.cursors.known())
    known |= dict.fromkeys(finding.foreign, _BEYOND)
    heard = finding.hints.take()
    finding.hints.everything = False
    try:
        lanes, marked = await store.look_at_lanes(
            database, job_types=scope.job_types, queues=scope.queues, known=sorted(known.items())
        )
    except StoreUnavailable:
        finding.hints.put_back(heard)
        raise
    finding.looked_at = time.monotonic()
    finding.marked_until = finding.looked_at + marked + MARK_MARGIN if marked > 0 else -math.inf
    took, before = finding.looked_at - began, finding.last_look_seconds
    # One that was held up, by a lock or by a machine that stood still, says nothing of what the next will take.
    finding.look_seconds, finding.last_look_seconds = min(took, before, LONGEST_LOOK_SECONDS), took
    if whole:
        bearings.full_look_at = finding.looked_at
    finding.lanes.clear()
    finding.new.clear()
    finding.job_types.clear()
    _believe(finding, bearings, lanes, known=known, low_water=bearings.settled_by(database))


async def look_at_named(finding: Finding, bearings: Bearings, database: Database, scope: Scope) -> None:
    """Look at the lanes that were heard of, and at hot ones that are believed to be empty when they are due."""
    now, named = time.monotonic(), finding.hints.take()
    lane_ids = set(named)
    if finding.is_hot(now) and now >= finding.hot_look_at:
        finding.hot_look_at = now + HOT_POLL_SECONDS[0]
        lane_ids |= {one for one in finding.hot if one not in finding.lanes}
    known = {one: bearings.cursors.after(one) for one in sorted(lane_ids - finding.foreign)}
    if not known:
        return
    try:
        lanes, marked = await store.look_at_lanes(
            database, job_types=scope.job_types, queues=scope.queues, known=list(known.items()), others=False
        )
    except StoreUnavailable:
        finding.hints.put_back(named)
        raise
    if marked > 0:
        finding.marked_until = max(finding.marked_until, time.monotonic() + marked + MARK_MARGIN)
    _believe(finding, bearings, lanes, known=known, low_water=bearings.settled_by(database))


def _believe(
    finding: Finding, bearings: Bearings, lanes: Iterable[Lane], *, known: Mapping[int, int], low_water: int
) -> None:
    for lane in lanes:
        if not lane.served:
            if len(finding.foreign) < MOST_FOREIGN:
                finding.foreign.add(lane.lane_id)
            continue
        bearings.cursors.found(lane.lane_id, lane.pos)
        after = known.get(lane.lane_id, 0)
        bearings.cursors.begin(lane.lane_id, lane.pos, low_water, after=after)
        finding.lanes[lane.lane_id] = lane
        finding.new.append(lane)
        finding.job_types.add(lane.job_type)
