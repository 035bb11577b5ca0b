"""The reaper: finds instances that died, takes their jobs back, and lets other instances run them.

Invariant: an owner is dead only when its lease is past *and* its beat stood still while this reaper watched (I1), and
the statement that takes its jobs looks again (I5): first the jobs of types whose own lease is past, then, once the
longest lease is, the instance is declared dead and all of its jobs are taken, until two passes have found nothing more.
Any instance may do it at any time; no lock and no leader (F25). Of several reapers that see the same, one makes the
pass over ready: the one that has the duty `sweep`. What a lost job becomes, `wakeful.depart` decides.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import anyio

from wakeful.aio.periodic import every
from wakeful.core.settings import ReaperSettings
from wakeful.errors import StoreUnavailable
from wakeful.runtime.duties import Duty
from wakeful.runtime.lease import suspended_clock
from wakeful.runtime.sweep import Lost, Sweep, Sweeping
from wakeful.runtime.watch import ServerClock, Watch
from wakeful.store import upkeep
from wakeful.store.database import Database
from wakeful.store.upkeep import Rescued, Sight
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import INSTANCE_REAPED, JOBS_RESCUED

BACKSTOP: Final = "backstop"
BACKSTOP_INTERVAL: Final = 60.0
SWEEP: Final = "sweep"
SWEEP_SECONDS: Final = 15.0  # a reaper that dies in its pass leaves it to another after this
_REAPER: Final = ReaperSettings()


@dataclass(slots=True, kw_only=True)
class Reaping:
    """A reaper's collaborators and its memory. Without a `watch`, a lease that is past is enough."""

    database: Database
    telemetry: Telemetry
    lost_limit: int = _REAPER.lost_limit
    watch: Watch | None = None
    clock: ServerClock = field(default_factory=ServerClock)
    now: Callable[[], float] = suspended_clock
    turned: Callable[[], None] = lambda: None
    held_at: float = 0.0


async def run_reaper(
    database: Database,
    stop: anyio.Event,
    *,
    telemetry: Telemetry | None = None,
    interval: float = _REAPER.interval,
    beat: float | None = None,
    lost_limit: int = _REAPER.lost_limit,
    watch: bool = True,
    clock: ServerClock | None = None,
    on_rescued: Callable[[Sequence[Rescued]], None] = lambda rescued: None,
    turned: Callable[[], None] = lambda: None,
) -> None:
    """Look for dead owners every `interval` seconds until `stop` is set.

    `beat`: seconds between their beats (the interval, where it is not given); three are watched before one is dead.
    """
    reaping = Reaping(
        database=database,
        telemetry=telemetry or database.telemetry,
        lost_limit=lost_limit,
        watch=Watch(beat=beat or interval, interval=interval) if watch else None,
        clock=clock or ServerClock(),
        turned=turned,
    )
    async for _ in every(interval, stop):
        turned()
        rescued = await take_turn(reaping, stop)
        if rescued:
            on_rescued(rescued)


async def take_turn(reaping: Reaping, stop: anyio.Event) -> list[Rescued]:
    """Reap; where contact with the database is lost, wait for it, and watch anew (I1)."""
    try:
        return await reap(reaping, stop)
    except StoreUnavailable:
        if reaping.watch is not None:
            reaping.watch.restart()
        await reaping.database.available(stop)
        return []


async def reap_once(
    database: Database, *, telemetry: Telemetry | None = None, lost_limit: int = _REAPER.lost_limit
) -> tuple[Rescued, ...]:
    """Take back, without the watch, all jobs whose owner's lease is past, or whose owner has no row; gives them."""
    reaping = Reaping(database=database, telemetry=telemetry or database.telemetry, lost_limit=lost_limit)
    rescued = await reap(reaping, anyio.Event())
    sights = await upkeep.look_at_instances(database)
    lost = Lost(known=[one.instance_id for one in sights])
    orphans = _sweeping(reaping, anyio.Event(), lost)
    await orphans.run()
    _tell(reaping.telemetry, orphans.result.rescued, reason="orphaned")
    return (*rescued, *orphans.result.rescued)


async def reap(reaping: Reaping, stop: anyio.Event) -> list[Rescued]:
    """One look at all instances and, where one is dead or silent, one pass over ready; gives the jobs taken back."""
    sights, still = await _look(reaping)
    convinced = [one for one in sights if one.state != "dead" and _is_still(reaping, one, still)]
    deposed = [
        one
        for one in convinced
        if max(one.silent, _watched(one, still)) > one.lease
        and await upkeep.depose(reaping.database, one, watched=_watched(one, still))
    ]
    dead = [one.instance_id for one in sights if one.state == "dead" or one in deposed]
    silent = [one for one in convinced if one not in deposed and one.is_worth_a_sweep]
    lost = Lost(dead=dead, silent={one.instance_id: one.beat_seq for one in silent})
    sweeping = _sweeping(reaping, stop, lost)
    try:
        if (dead or silent) and await _take(reaping):
            await sweeping.run()
            await _note(reaping, dead, silent, sweeping.result)
    finally:
        _tell_deaths(reaping.telemetry, deposed, sweeping.result)
        _tell(reaping.telemetry, sweeping.result.rescued, reason="lease")
    return sweeping.result.rescued


def backstop_duty(
    database: Database,
    *,
    telemetry: Telemetry | None = None,
    clock: ServerClock | None = None,
    grace: float = _REAPER.backstop,
    lost_limit: int = _REAPER.lost_limit,
    interval: float = BACKSTOP_INTERVAL,
    on_rescued: Callable[[Sequence[Rescued]], None] = lambda rescued: None,
) -> Duty:
    """Take back what no look at instances finds: jobs of owners without a row, and jobs far past their deadline.

    Far past is one more deadline and `grace` seconds, even where the owner beats (I14); `clock`, the reaper's own, says
    how far the server's has jumped ahead since, and so much later it is.
    """

    async def perform(stop: anyio.Event) -> None:
        sights = await upkeep.look_at_instances(database)
        late = grace + (0.0 if clock is None else clock.jumped)
        lost = Lost(known=[one.instance_id for one in sights], grace=late)
        reaping = Reaping(database=database, telemetry=telemetry or database.telemetry, lost_limit=lost_limit)
        sweeping = _sweeping(reaping, stop, lost)
        await sweeping.run()
        _tell(reaping.telemetry, sweeping.result.rescued, reason="backstop")
        on_rescued(sweeping.result.rescued)

    return Duty(name=BACKSTOP, interval=interval, perform=perform)


async def _look(reaping: Reaping) -> tuple[list[Sight], dict[int, float]]:
    asked_at = reaping.now()
    sights = await upkeep.look_at_instances(reaping.database)
    answered_at = reaping.now()
    if sights:
        reaping.clock.look(sights[0].server_clock, asked_at=asked_at, answered_at=answered_at)
    if reaping.watch is None:
        return sights, {}
    return sights, reaping.watch.look(sights, asked_at=asked_at, answered_at=answered_at)


def _is_still(reaping: Reaping, sight: Sight, still: dict[int, float]) -> bool:
    return reaping.watch is None or _watched(sight, still) >= reaping.watch.needed


def _watched(sight: Sight, still: dict[int, float]) -> float:
    return still.get(sight.instance_id, 0.0)


def _sweeping(reaping: Reaping, stop: anyio.Event, lost: Lost) -> Sweeping:
    return Sweeping(
        database=reaping.database,
        stop=stop,
        lost=lost,
        lost_limit=reaping.lost_limit,
        held=partial(keep_sweeping, reaping),
    )


async def keep_sweeping(reaping: Reaping) -> None:
    """Say that the pass goes on: to `/livez`, and now and then to the other reapers."""
    reaping.turned()
    if reaping.watch is not None and time.monotonic() - reaping.held_at > SWEEP_SECONDS / 3:
        await upkeep.hold_duty(reaping.database, SWEEP, SWEEP_SECONDS)
        reaping.held_at = time.monotonic()


async def _take(reaping: Reaping) -> bool:
    """Whether the pass is ours; without a watch nobody is asked."""
    if reaping.watch is None:
        return True
    reaping.held_at = time.monotonic()
    await upkeep.keep_duties(reaping.database, [SWEEP])
    return await upkeep.take_duty(reaping.database, SWEEP, SWEEP_SECONDS)


async def _note(reaping: Reaping, dead: Sequence[int], silent: Sequence[Sight], swept: Sweep) -> None:
    """Note a whole pass, so that nobody makes it again for the same, and let go of the duty."""
    if swept.complete:
        await upkeep.note_sweep(
            reaping.database,
            clean=[number for number in dead if swept.found[number] <= 0],
            found=[number for number in dead if swept.found[number] > 0],
            silent=silent,
        )
    if reaping.watch is not None:
        await upkeep.hold_duty(reaping.database, SWEEP, 0.0)


def _tell_deaths(telemetry: Telemetry, deposed: Sequence[Sight], swept: Sweep) -> None:
    taken = Counter(one.owner for one in swept.rescued)
    for sight in deposed:
        telemetry.emit(
            INSTANCE_REAPED,
            instance_id=sight.instance_id,
            name=sight.name,
            jobs=taken[sight.instance_id],
            silent_seconds=round(sight.silent, 1),
        )


def _tell(telemetry: Telemetry, rescued: Sequence[Rescued], *, reason: str) -> None:
    if rescued:
        dead = sum(one.status == "DEAD" for one in rescued)
        telemetry.emit(JOBS_RESCUED, jobs=len(rescued), dead=dead, reason=reason)
