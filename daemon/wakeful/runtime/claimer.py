"""The one claimer of an instance: finds lanes with work, shares the free workers among them, claims.

Invariant: never more is claimed than can start within about 50 ms; a token is registered before its statement is sent,
so that a lost reply loses no job (I8); nothing is claimed after the stop event is set, or while the lease is in doubt;
what a claim brings after that is given back. Which job runs where is the crew's, what it does is the executor's.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import anyio

from wakeful.aio.periodic import rest
from wakeful.aio.wakeup import Wakeup
from wakeful.core.pace import Pace
from wakeful.core.settings import PollSettings
from wakeful.core.turns import Demand, Turns
from wakeful.errors import StoreBusy, StoreUnavailable
from wakeful.runtime.crew import Crew
from wakeful.runtime.holdings import Holding, Holdings
from wakeful.runtime.lease import Lease, Owner, new_token
from wakeful.store import jobs as store
from wakeful.store.database import Database
from wakeful.store.jobs import Claimed, Lane
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import CLAIM_FAILED, JOB_CLAIMED, JOBS_CLAIMED, LANES_CLAIMED

PASSES: Final = 3
HOT_ROUND: Final = 20
HOT_SECONDS: Final = 4.0
HOT_MARK_SECONDS: Final = 0.5
HOT_POLL_SECONDS: Final = (0.02, 0.05)
DOUBT_SECONDS: Final = 120.0
QUIETER: Final = 1.5


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
    """A lane's part of a round: `slots` of the free workers, and so many `jobs`, some of them ahead."""

    lane: Lane
    demand: Demand
    slots: int
    jobs: int


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
    hot_until: float = 0.0
    marked_at: float = 0.0


async def run_claimer(
    claiming: Claiming, stop: anyio.Event, *, poll: PollSettings, turned: Callable[[], None]
) -> None:
    """Claim until `stop` is set; every round that found nothing waits for the bell, or for the next poll."""
    quiet = poll.min
    while not stop.is_set():
        turned()
        try:
            again, found = await claim_round(claiming)
        except StoreUnavailable as error:
            if isinstance(error, StoreBusy):  # an outage is told once, for all that it touches
                claiming.telemetry.emit(CLAIM_FAILED, error=str(error))
            await claiming.database.available(stop)
            continue
        if again:
            continue
        quiet = poll.min if found else min(quiet * QUIETER, poll.max)
        await rest(stop, claiming.bell, _seconds(claiming, quiet))


async def claim_round(claiming: Claiming) -> tuple[bool, int]:
    """One look at the lanes, and claims while workers are free; (more may be there at once, jobs claimed)."""
    owner = claiming.lease.owner
    if owner is None or not claiming.is_open() or not claiming.lease.may_start(claiming.scope.shortest_lease):
        return False, 0
    await release_doubts(claiming)
    claiming.crew.wanted = claiming.crew.free == 0
    if claiming.crew.wanted or claiming.crew.closed:
        return False, 0
    began = time.monotonic()
    lanes = await store.find_lanes(
        claiming.database, job_types=claiming.scope.job_types, queues=claiming.scope.queues
    )
    left, found = await _claim_in_passes(claiming, owner, lanes)
    if lanes:
        seconds = time.monotonic() - began
        claiming.telemetry.emit(LANES_CLAIMED, lanes=len(lanes), jobs=found, seconds=round(seconds, 4))
    claiming.crew.wanted = bool(left)
    may_take = claiming.crew.free > 0 and not claiming.crew.closed
    return may_take and any(_demand(claiming, lane).most > 0 for lane in left), found


async def _claim_in_passes(
    claiming: Claiming, owner: Owner, lanes: Sequence[Lane]
) -> tuple[Sequence[Lane], int]:
    """Share free workers among lanes; what a lane can't use goes to the others. (lanes that may hold more, jobs)."""
    found = 0
    for _ in range(PASSES):
        shares = shares_of(claiming, lanes)
        if not shares:
            break
        exhausted, got = await _claim_shares(claiming, owner, shares)
        lanes = [lane for lane in lanes if lane.lane_id not in exhausted]
        found += got
    return lanes, found


def shares_of(claiming: Claiming, lanes: Sequence[Lane]) -> list[Share]:
    """What to claim from each lane: its turn of the free workers, and what fast types can start soon."""
    free = 0 if claiming.crew.closed else claiming.crew.free
    demands = {lane.lane_id: _demand(claiming, lane) for lane in lanes}
    shared = claiming.turns.share(free, list(demands.values()))
    by_id = {lane.lane_id: lane for lane in lanes}
    shares = []
    for lane_id, slots in shared:
        lane, demand = by_id[lane_id], demands[lane_id]
        # What is claimed ahead waits for the workers that are free now: the busy ones may be busy for long.
        ahead = claiming.pace.ahead(lane.job_type, free) // len(shared)
        shares.append(Share(lane=lane, demand=demand, slots=slots, jobs=min(demand.most, slots + ahead)))
    return shares


def _demand(claiming: Claiming, lane: Lane) -> Demand:
    most = 1_000_000
    if lane.queue in claiming.scope.caps:
        most = max(0, claiming.scope.caps[lane.queue] - claiming.holdings.by_queue()[lane.queue])
    if lane.suspect:
        most = 0 if claiming.holdings.has_suspect() else 1
    return Demand(lane_id=lane.lane_id, priority=lane.priority, waiting=lane.waiting, most=most)


async def _claim_shares(claiming: Claiming, owner: Owner, shares: Sequence[Share]) -> tuple[set[int], int]:
    """One claim for each share; (lanes that gave less than asked, jobs)."""
    exhausted: set[int] = set()
    busy: list[int] = []
    found = 0
    for share in shares:
        lane_id = share.lane.lane_id
        asked = 0 if claiming.crew.closed else min(share.jobs, _demand(claiming, share.lane).most)
        got = await claim_lane(claiming, owner, share.lane, asked) if asked else 0
        found += got
        claiming.turns.refund(share.demand, max(0, share.slots - got))
        if got < asked:
            exhausted.add(lane_id)
        if got >= HOT_ROUND:
            busy.append(lane_id)
    if busy:
        await _keep_hot(claiming, busy)
    return exhausted, found


async def claim_lane(claiming: Claiming, owner: Owner, lane: Lane, limit: int) -> int:
    """Claim from one lane and hand the jobs to the crew; gives how many. A lost reply leaves a doubt (I8)."""
    token = new_token()
    hurried = claiming.pace.is_short(lane.job_type)
    try:
        claimed = await store.claim(
            claiming.database, lane.lane_id, limit, owner=owner.pair, token=token, hurried=hurried
        )
    except StoreUnavailable:
        until = time.monotonic() + DOUBT_SECONDS
        claiming.holdings.doubt(lane.lane_id, token, first=lane.pos, until=until)
        raise
    holdings = [_holding(claiming, lane, one) for one in claimed]
    claiming.holdings.add(holdings)
    _tell_all(claiming.telemetry, lane, holdings)
    for holding in holdings:
        # Deposed meanwhile, by a reaper whose pass the claim outlived: the worker is to let go of it (I5).
        holding.lost = claiming.lease.owner != owner
        if not claiming.crew.put(holding):
            claiming.give_back(holding)
    return len(holdings)


async def release_doubts(claiming: Claiming) -> None:
    """Give back what claims with lost replies took; asked again until such a claim can't commit any more."""
    for doubt in claiming.holdings.doubts():
        released, locked = await store.release_claim(
            claiming.database, doubt.lane_id, doubt.token, first=doubt.first
        )
        if released and not locked:
            claiming.holdings.resolve(doubt)  # a token is one statement's: it took nothing else


def _holding(claiming: Claiming, lane: Lane, claimed: Claimed) -> Holding:
    return Holding(
        job=claimed.job,
        lease=claiming.scope.lease_of(claimed.job.job_type),
        wait=claimed.wait,
        snoozed=claimed.snoozed,
        suspect=lane.suspect,
        claimed_at=claimed.claimed_at,
    )


async def _keep_hot(claiming: Claiming, lanes: Sequence[int]) -> None:
    now = time.monotonic()
    claiming.hot_until = now + HOT_SECONDS
    if now - claiming.marked_at >= HOT_MARK_SECONDS:
        claiming.marked_at = now
        await store.mark_hot(claiming.database, lanes)


def _seconds(claiming: Claiming, quiet: float) -> float:
    """How long to wait for the bell: hot lanes ring none, so they are polled, two seconds beyond their mark (I18)."""
    if time.monotonic() < claiming.hot_until:
        return random.uniform(*HOT_POLL_SECONDS)
    return quiet * random.uniform(0.8, 1.0)


def _tell_all(telemetry: Telemetry, lane: Lane, holdings: Sequence[Holding]) -> None:
    if holdings:
        telemetry.emit(JOBS_CLAIMED, job_type=lane.job_type, queue=lane.queue, jobs=len(holdings))
    if telemetry.hears(JOB_CLAIMED):
        for holding in holdings:
            _tell(telemetry, holding)


def _tell(telemetry: Telemetry, holding: Holding) -> None:
    job = holding.job
    telemetry.emit(
        JOB_CLAIMED,
        job_id=job.job_id,
        job_type=job.job_type,
        queue=job.queue,
        subject=job.subject,
        run_no=job.run_no,
        attempt=job.attempts,
        wait_ms=round(holding.wait * 1000),
    )
