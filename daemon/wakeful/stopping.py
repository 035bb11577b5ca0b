"""How one instance stops: quiesce, drain, interrupt, flush, retire, each within its bound.

Invariant: a stop takes no new work, loses no result and charges no job; whatever the database does not take in time is
sorted out by leases. A handler that will not end keeps its job from everybody until this process is gone (I13).
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Final

import anyio

from wakeful.aio.periodic import cancel_when_set
from wakeful.aio.shutdown import Shutdown
from wakeful.composition import Observed, Parts
from wakeful.core.outcome import HandedBack
from wakeful.errors import DataRefused, StoreUnavailable
from wakeful.runtime.conclusion import Conclusion
from wakeful.store import instances
from wakeful.telemetry.events import (
    DAEMON_DRAINED,
    DAEMON_INTERRUPTED,
    DAEMON_QUIESCED,
    INSTANCE_RETIRED,
    PHASE_ENTERED,
)
from wakeful.telemetry.health import Phase

FLUSH_SECONDS: Final = 1.0
LAST_SECONDS: Final = 0.5
BEYOND_EXIT_SECONDS: Final = 15.0


def enter(observed: Observed, phase: Phase) -> None:
    """Go on to a phase, and say so."""
    observed.health.enter(phase)
    observed.telemetry.emit(PHASE_ENTERED, phase=phase)


async def quiesce(parts: Parts) -> None:
    """Claim nothing more, say so in the database, and give back what no worker had taken up."""
    enter(parts.observed, "quiesce")
    for holding in parts.crew.close():
        parts.finisher.submit(Conclusion(holding=holding, outcome=HandedBack(counted=False)))
    owner = parts.lease.owner
    if owner is not None:
        # The rows only tell others; we claim nothing either way. No scope ends a call: its deadline does.
        with suppress(StoreUnavailable, DataRefused):
            hot = parts.claiming.finding.marks.leave()
            await instances.drain(parts.upkeep, owner.pair, hot=hot, deadline=FLUSH_SECONDS)
    parts.observed.telemetry.emit(DAEMON_QUIESCED, running=len(parts.attempts.running))


async def drain(parts: Parts, shutdown: Shutdown) -> None:
    """Let running handlers finish, until the grace is over or the stop is hurried."""
    enter(parts.observed, "drain")
    with anyio.move_on_after(parts.settings.drain.grace):
        async with anyio.create_task_group() as group:
            group.start_soon(cancel_when_set, shutdown.hurried, group.cancel_scope)
            await parts.attempts.idle()
            group.cancel_scope.cancel()


async def interrupt(parts: Parts) -> list[str]:
    """Cancel what still runs and hand it back; gives the names of the attempts whose handlers do not end."""
    began, running = time.monotonic(), len(parts.attempts.running)
    if running:
        enter(parts.observed, "interrupt")
        grace = parts.settings.drain.grace
        parts.observed.telemetry.emit(DAEMON_INTERRUPTED, running=running, grace=grace)
        parts.attempts.interrupt_all()
        with anyio.move_on_after(parts.settings.drain.interrupt):
            await parts.attempts.idle()
    stuck = list(parts.attempts.running.values())
    for attempt in stuck:
        # Its handler may run on until we are gone: nobody else may start the job before that.
        if not attempt.given_up:
            attempt.given_up = True
            outcome = HandedBack(delay=BEYOND_EXIT_SECONDS)
            parts.executing.submit(Conclusion(holding=attempt.holding, outcome=outcome))
    seconds = round(time.monotonic() - began, 1)
    parts.observed.telemetry.emit(DAEMON_DRAINED, seconds=seconds, handed_back=running)
    return [attempt.label for attempt in stuck]


async def flush(parts: Parts) -> None:
    """See the last results into the database."""
    enter(parts.observed, "flush")
    with anyio.move_on_after(FLUSH_SECONDS):
        await parts.finisher.settled()


def hurry_writes(parts: Parts) -> None:
    """From here on no call to the database may hold the end up."""
    parts.hot.limit(LAST_SECONDS)
    parts.upkeep.limit(FLUSH_SECONDS)


async def retire(parts: Parts) -> None:
    """Remove this instance's row, after `hurry_writes`; one that stays is found by any reaper."""
    owner = parts.lease.owner
    if owner is not None:
        with suppress(StoreUnavailable):
            if await instances.retire(parts.upkeep, owner.pair):
                parts.observed.telemetry.emit(INSTANCE_RETIRED, instance_id=owner.instance_id)


def close_tracing(parts: Parts) -> None:
    """End what is still traced, and have it exported, in a second at most."""
    if parts.executing.tracing is not None:
        parts.executing.tracing.close()
