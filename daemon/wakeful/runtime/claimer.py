"""The one claimer of an instance: shares the free workers among the lanes with work, and claims.

Invariant: a token is registered before its statement is sent, so that a lost reply loses no job (I8); a cursor moves by
what a claim brought, never by one whose reply was lost; nothing is claimed after the stop event is set, or while the
lease is in doubt; what a claim brings after that is given back. How much may be claimed is `sharing`'s, which lanes
have work `finding`'s, where they are looked at `settling`'s. Which job runs where is the crew's.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import anyio

from wakeful.aio.wakeup import Wakeup, rung_at
from wakeful.core.pace import Pace, Starts
from wakeful.core.settings import PollSettings
from wakeful.core.turns import Turns
from wakeful.errors import DataRefused, StoreBusy, StoreUnavailable
from wakeful.runtime.crew import Crew
from wakeful.runtime.doubts import release_doubts
from wakeful.runtime.finding import Finding, look_at_named, look_everywhere
from wakeful.runtime.holdings import Holding, Holdings
from wakeful.runtime.lease import Lease, Owner, new_token
from wakeful.runtime.marks import cool_while_full, mark
from wakeful.runtime.refusals import Refusals
from wakeful.runtime.settling import Bearings, keep_bearings
from wakeful.runtime.sharing import Limits, Room, Scope, Share, demand_of, shares_of
from wakeful.store import jobs as store
from wakeful.store.database import Database
from wakeful.store.jobs import Claimed, Lane
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import CLAIM_FAILED, JOB_CLAIMED, JOBS_CLAIMED, LANES_CLAIMED

PASSES: Final = 20
DOUBT_SECONDS: Final = 120.0


@dataclass(slots=True, kw_only=True)
class Claiming:
    """The claimer's collaborators, and what it remembers between rounds.

    `give_back` ends a claim that came too late for the crew.
    """

    database: Database
    crew: Crew
    holdings: Holdings
    lease: Lease
    scope: Scope
    pace: Pace
    bell: Wakeup
    telemetry: Telemetry
    give_back: Callable[[Holding], None]
    is_open: Callable[[], bool] = lambda: True
    turns: Turns = field(default_factory=Turns)
    starts: Starts = field(default_factory=Starts)
    finding: Finding = field(default_factory=Finding)
    bearings: Bearings = field(default_factory=Bearings)
    refusals: Refusals = field(default_factory=Refusals)


async def run_claimer(
    claiming: Claiming, stop: anyio.Event, *, poll: PollSettings, turned: Callable[[], None]
) -> None:
    """Claim until `stop` is set; a turn that can do no more waits for the bell, or for the next poll."""
    async with rung_at(stop, claiming.bell):
        while not stop.is_set():
            turned()
            try:
                seconds = await take_turn(claiming, poll)
            except StoreUnavailable as error:
                await _sit_out(claiming, error, stop)
                continue
            if seconds > 0 and await claiming.bell.wait(seconds):
                claiming.finding.rung()


async def _sit_out(claiming: Claiming, error: StoreUnavailable, stop: anyio.Event) -> None:
    """Believe nothing any more, and wait until the database may be asked again."""
    claiming.finding.forget()
    if isinstance(error, StoreBusy):  # an outage is told once, for all that it touches
        claiming.telemetry.emit(CLAIM_FAILED, error=str(error))
    else:
        claiming.bearings.forget()
    await claiming.database.available(stop)


async def take_turn(claiming: Claiming, poll: PollSettings) -> float:
    """Look where a look is due, claim what may start; gives the seconds until there is something to do again."""
    finding, owner = claiming.finding, _owner_that_may_claim(claiming)
    claiming.crew.wanted = False
    if owner is None:
        claiming.crew.want()  # what a worker ends may be what it waits for
        return finding.rest_seconds(poll, 0)
    await release_doubts(claiming.database, claiming.holdings, claiming.refusals)
    back = await keep_bearings(claiming.bearings, claiming.database)
    finding.hints.lanes.update(back)
    if not room_of(claiming).any:
        return min(_wait_for_room(claiming, poll), await cool_while_full(finding.marks, claiming.database))
    await _look_if_due(claiming, poll)
    seen = len(finding.lanes)
    found = await _claim_in_passes(claiming, owner)
    await mark(finding.marks, claiming.database)
    return _seconds_after(claiming, poll, found, seen)


async def claim_round(claiming: Claiming) -> int:
    """One look at all lanes, and claims while workers are free; gives how many jobs were claimed."""
    owner = _owner_that_may_claim(claiming)
    if owner is None:
        return 0
    await release_doubts(claiming.database, claiming.holdings, claiming.refusals)
    await keep_bearings(claiming.bearings, claiming.database)
    if not room_of(claiming).any:
        return 0
    # From the heads: whoever drives it step by step may have moved rows by hand.
    claiming.bearings.full_look_at = -math.inf
    await look_everywhere(claiming.finding, claiming.bearings, claiming.database, claiming.scope)
    found = await _claim_in_passes(claiming, owner)
    await mark(claiming.finding.marks, claiming.database)
    return found


def room_of(claiming: Claiming) -> Room:
    """How much may be claimed now."""
    return Room.of(claiming.crew, claiming.pace, claiming.starts, claiming.finding.job_types)


def limits_of(claiming: Claiming) -> Limits:
    """What may be claimed of each lane, by what is held now."""
    return Limits(scope=claiming.scope, holdings=claiming.holdings)


def _owner_that_may_claim(claiming: Claiming) -> Owner | None:
    may = claiming.is_open() and claiming.lease.may_start(claiming.scope.shortest_lease)
    return claiming.lease.owner if may and not claiming.crew.closed else None


def _wait_for_room(claiming: Claiming, poll: PollSettings) -> float:
    """Have the crew ring when a worker finds nothing more to take, or when half of what may wait has started."""
    claiming.crew.want(room_of(claiming).low)
    return poll.max if (restless := claiming.bearings.restless_seconds) is None else restless


def _seconds_after(claiming: Claiming, poll: PollSettings, found: int, seen: int) -> float:
    """How long to wait after a turn with room: not at all while a claim may bring more.

    A lane that was `seen` and gave nothing holds what somebody has locked, perhaps not for long: a poll comes soon.
    """
    finding, now, limits = claiming.finding, time.monotonic(), limits_of(claiming)
    if found and any(limits.most(lane) > 0 for lane in finding.lanes.values()):
        return 0.0
    if found and finding.is_stale(now):
        finding.hints.everything = True  # what was believed is old, and used up
        return 0.0
    claiming.crew.want(room_of(claiming).low if finding.lanes else -1)
    seconds = finding.rest_seconds(poll, found or seen)
    restless = claiming.bearings.restless_seconds
    return seconds if restless is None else min(seconds, restless)


async def _look_if_due(claiming: Claiming, poll: PollSettings) -> None:
    """All lanes at each poll, and where anything may have come; else those that were named, and the hot ones."""
    finding = claiming.finding
    if finding.wants_look(time.monotonic(), poll):
        await look_everywhere(finding, claiming.bearings, claiming.database, claiming.scope)
    else:
        await look_at_named(finding, claiming.bearings, claiming.database, claiming.scope)


async def _claim_in_passes(claiming: Claiming, owner: Owner) -> int:
    """Share what may start among the lanes; what a lane can't use goes to the others. Gives how many were claimed."""
    found, lanes, began = 0, len(claiming.finding.lanes), time.monotonic()
    _let_take_part(claiming)
    for _ in range(PASSES):
        room = room_of(claiming)
        if not room.any:
            break
        shares = shares_of(
            claiming.finding.lanes, room=room, turns=claiming.turns, limits=limits_of(claiming).most
        )
        got = await _claim_shares(claiming, owner, shares)
        found += got
        if got == sum(one.jobs for one in shares):
            break
    if lanes:
        seconds = round(time.monotonic() - began, 4)
        claiming.telemetry.emit(LANES_CLAIMED, lanes=lanes, jobs=found, seconds=seconds)
    return found


def _let_take_part(claiming: Claiming) -> None:
    room = room_of(claiming)
    for lane in claiming.finding.new:
        claiming.turns.want(demand_of(lane, room=room, most=1))
    claiming.finding.new.clear()


async def _claim_shares(claiming: Claiming, owner: Owner, shares: Sequence[Share]) -> int:
    """One claim for each share; gives the jobs. A lane that gave less than asked is believed to be empty."""
    found = 0
    for share in shares:
        lane = share.lane
        asked = 0 if claiming.crew.closed else min(share.jobs, limits_of(claiming).most(lane))
        got = await claim_lane(claiming, owner, lane, asked) if asked else 0
        found += got
        claiming.turns.refund(share.demand, max(0, share.jobs - got))
        if got < asked:
            claiming.finding.exhausted(lane.lane_id)
    return found


async def claim_lane(claiming: Claiming, owner: Owner, lane: Lane, limit: int) -> int:
    """Claim from one lane and hand the jobs to the crew; gives how many. A lost reply leaves a doubt (I8)."""
    token = new_token()
    with claiming.holdings.asking(token):
        return await _claim_by(claiming, owner, lane, limit=limit, token=token)


async def _claim_by(claiming: Claiming, owner: Owner, lane: Lane, *, limit: int, token: int) -> int:
    bearings, began = claiming.bearings, time.monotonic()
    after, low_water = bearings.cursors.after(lane.lane_id), bearings.settling.low_water
    try:
        claimed = await store.claim(
            claiming.database,
            lane,
            limit,
            owner=owner.pair,
            token=token,
            hurried=claiming.pace.is_short(lane.job_type),
            after=after,
        )
    except StoreUnavailable:
        until = time.monotonic() + DOUBT_SECONDS
        claiming.holdings.doubt(lane.lane_id, token, first=after + 1, until=until)
        raise
    except DataRefused as error:  # a row of this lane; the others go on (R5)
        if claiming.refusals.is_news(lane.lane_id, error):
            claiming.telemetry.emit(CLAIM_FAILED, error=str(error))
        return 0
    if claimed:
        claiming.refusals.taken(lane.lane_id)
        if bearings.check(claiming.database):
            low_water = 0  # another life of the server may have answered
        seconds = time.monotonic() - began
        bearings.took(lane.lane_id, claimed[-1].job.pos, low_water=low_water, seconds=seconds)
        claiming.finding.claimed(lane, len(claimed), claimed[-1].wait)
        lease = claiming.scope.lease_of(lane.job_type)
        received = time.monotonic()
        _hand_over(
            claiming,
            owner,
            [Holding(one, lease, suspect=lane.suspect, received=received) for one in claimed],
        )
        _tell_all(claiming.telemetry, lane, claimed)
    return len(claimed)


def _hand_over(claiming: Claiming, owner: Owner, holdings: Sequence[Holding]) -> None:
    claiming.holdings.add(holdings)
    # Deposed meanwhile, by a reaper whose pass the claim outlived: the workers are to let go of them (I5).
    lost = claiming.lease.owner != owner
    for holding in holdings:
        holding.lost = lost
    for holding in () if claiming.crew.put_all(holdings) else holdings:
        claiming.give_back(holding)


def _tell_all(telemetry: Telemetry, lane: Lane, claimed: Sequence[Claimed]) -> None:
    telemetry.emit(JOBS_CLAIMED, job_type=lane.job_type, queue=lane.queue, jobs=len(claimed))
    for one in claimed if telemetry.hears(JOB_CLAIMED) else ():
        _tell(telemetry, one)


def _tell(telemetry: Telemetry, claimed: Claimed) -> None:
    job = claimed.job
    telemetry.emit(
        JOB_CLAIMED,
        job_id=job.job_id,
        job_type=job.job_type,
        queue=job.queue,
        subject=job.subject,
        run_no=job.run_no,
        attempt=job.attempts,
        wait_ms=round(claimed.wait * 1000),
    )
