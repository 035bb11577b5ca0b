"""The loops of one instance, each with its collaborators from `Parts`: what runs, not when it starts or ends.

Invariant: each function here is one loop (or starts some) and ends when the event that it is given is set. The order of
starting and ending is `supervisor`'s.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import anyio
from anyio.from_thread import BlockingPortal

from wakeful.aio.lag import watch_lag
from wakeful.aio.periodic import every
from wakeful.aio.shutdown import Shutdown
from wakeful.composition import Parts
from wakeful.core.outcome import HandedBack
from wakeful.errors import StoreUnavailable
from wakeful.outbox.dispatcher import run_dispatcher
from wakeful.outbox.heartbeat import run_heartbeat
from wakeful.runtime.attempts import Overseeing
from wakeful.runtime.beat import Beating, Heart, Pulse
from wakeful.runtime.claimer import run_claimer
from wakeful.runtime.conclusion import Conclusion
from wakeful.runtime.duties import INTERVAL, Duty, run_duties
from wakeful.runtime.forgotten import give_back_forgotten
from wakeful.runtime.gauges import run_gauges
from wakeful.runtime.identity import run_identity
from wakeful.runtime.promoter import run_promoter
from wakeful.runtime.reaper import run_reaper
from wakeful.runtime.worker import Replacing, Workers
from wakeful.stopping import FLUSH_SECONDS
from wakeful.store import jobs as store
from wakeful.store.listener import LONGEST_DEGRADED_PAUSE_SECONDS, run_listener

LOOP_BOUND_SECONDS: Final = 60.0
SLOW_LOOP_BOUND_SECONDS: Final = 600.0  # a sweep over a large table takes its time
STALE_LOOK_SECONDS: Final = 0.5
IDLE_LOOK_SECONDS: Final = (
    3.0  # while no handler runs: at what only handlers change, and that the loop turns at all
)
EMPTY_LOOK_SECONDS: Final = 0.2
EMPTY_LOOKS: Final = 2
SHOW_SECONDS: Final = 1.0
GUEST_DUTIES: Final = frozenset({"fold_lanes", "job_types"})

Loop = Callable[[], Awaitable[None]]
Run = Callable[[Loop], None]


def start_upkeep(parts: Parts, run: Run, quiet: anyio.Event, *, as_guest: bool) -> None:
    """Start what keeps the whole fleet's tables in order, while they are ours; it ends when the process goes quiet.

    A guest does what is the same whoever does it, and no duty that goes by an instance's own settings.
    """
    duties = [duty for duty in parts.duties if duty.name in GUEST_DUTIES or not as_guest]
    # A duty that is due more often than is usually looked is still due.
    interval = min([INTERVAL, *(duty.interval for duty in duties)])
    gated = partial(parts.gate.while_open, quiet)
    run(lambda: gated(lambda: promote(parts, quiet)))
    run(lambda: gated(lambda: reap(parts, quiet)))
    run(lambda: gated(lambda: do_duties(parts, quiet, duties, interval=interval)))


async def promote(parts: Parts, quiet: anyio.Event) -> None:
    """Make scheduled jobs claimable when they are due."""
    poll, bells = parts.settings.poll.max, parts.bells
    with parts.observed.health.loop("promoter", bound=LOOP_BOUND_SECONDS + poll) as turned:
        await run_promoter(
            parts.upkeep,
            quiet,
            alarm=bells.promoter,
            poll=poll,
            on_promoted=lambda _: bells.on_ready(),
            turned=turned,
        )


async def reap(parts: Parts, quiet: anyio.Event) -> None:
    """Take back the jobs of dead instances."""
    settings = parts.settings
    with parts.observed.health.loop("reaper", bound=SLOW_LOOP_BOUND_SECONDS) as turned:
        await run_reaper(
            parts.upkeep,
            quiet,
            interval=settings.reaper.interval,
            beat=settings.lease.beat,
            lost_limit=settings.reaper.lost_limit,
            clock=parts.clock,
            on_rescued=parts.bells.on_rescued,
            turned=turned,
        )


async def do_duties(parts: Parts, quiet: anyio.Event, duties: Sequence[Duty], *, interval: float) -> None:
    """Do what the fleet has to do once, as far as it falls to this instance."""
    with parts.observed.health.loop("duties", bound=SLOW_LOOP_BOUND_SECONDS) as turned:
        await run_duties(parts.upkeep, quiet, duties, interval=interval, turned=turned)


async def claim(parts: Parts, quiet: anyio.Event) -> None:
    """Claim until the process goes quiet; a claimer that stands still makes the process unhealthy."""
    with parts.observed.health.loop("claimer", bound=LOOP_BOUND_SECONDS) as turned:
        await run_claimer(parts.claiming, quiet, poll=parts.settings.poll, turned=turned)


async def put_back_stale(parts: Parts, quiet: anyio.Event) -> None:
    """Jobs that wait behind one that is slower than expected go back, for whoever is free."""
    async for _ in every(STALE_LOOK_SECONDS, quiet):
        await parts.attempts.begun(quiet, IDLE_LOOK_SECONDS)
        for holding in parts.crew.take_back_stale():
            parts.executing.pace.forget(holding.job.job_type)
            parts.finisher.submit(Conclusion(holding=holding, outcome=HandedBack(counted=False)))


async def write_results(parts: Parts, over: anyio.Event) -> None:
    """Write what attempts have come to, until the end and all is written."""
    await parts.finisher.run(over, parts.observed.health)


async def write_reports(parts: Parts, over: anyio.Event) -> None:
    """Write progress and log lines until the end."""
    with parts.observed.health.loop("reporter", bound=SLOW_LOOP_BOUND_SECONDS) as turned:
        await parts.reporter.run(over, turned)


async def listen(parts: Parts, over: anyio.Event) -> None:
    """Be woken by notifications until the end."""
    bound = LONGEST_DEGRADED_PAUSE_SECONDS + LOOP_BOUND_SECONDS
    with parts.observed.health.loop("listener", bound=bound) as turned:
        await run_listener(
            parts.settings.database,
            over,
            telemetry=parts.observed.telemetry,
            on_notify=parts.bells.on_notify,
            turned=turned,
        )


async def identify(parts: Parts, over: anyio.Event) -> None:
    """Hold the gate open while this is the server that we belong to."""
    await run_identity(
        parts.upkeep,
        over,
        gate=parts.gate,
        health=parts.observed.health,
        others=(parts.hot,),
        recover=partial(give_back_forgotten, parts.upkeep, parts.lease, parts.holdings),
    )


async def dispatch(parts: Parts, over: anyio.Event) -> None:
    """Send alerts until the end, and then what is due."""
    bound = SLOW_LOOP_BOUND_SECONDS + parts.settings.outbox.interval
    with parts.observed.health.loop("dispatcher", bound=bound) as turned:
        await run_dispatcher(
            parts.upkeep,
            parts.sinks,
            over,
            telemetry=parts.observed.telemetry,
            settings=parts.settings.outbox,
            policy=parts.policy,
            wakeup=parts.bells.dispatcher,
            instance_id=lambda: parts.lease.owner.instance_id if parts.lease.owner else 0,
            flush_seconds=FLUSH_SECONDS,
            turned=turned,
        )


async def call_outside(parts: Parts, over: anyio.Event) -> None:
    """Let somebody outside know, while all is well, that it is."""
    health = parts.observed.health
    await run_heartbeat(
        parts.settings.heartbeat,
        over,
        telemetry=parts.observed.telemetry,
        is_ready=lambda: health.ready()[0] and health.live()[0],
    )


def overseeing(parts: Parts, workers: Workers) -> Overseeing:
    """What the overseer may do about handlers that do not end."""
    replacing = Replacing(
        executing=parts.executing,
        crew=parts.crew,
        workers=workers,
        stuck_limit=parts.settings.worker.stuck_limit,
    )
    return Overseeing(
        lease=parts.lease,
        telemetry=parts.observed.telemetry,
        replace=replacing.replace,
        give_up=replacing.give_up,
    )


async def stop_when_empty(parts: Parts, shutdown: Shutdown) -> None:
    """Ask for the stop when nothing that we serve is due or runs here, seen twice in a row."""
    scope, empty = parts.claiming.scope, 0
    async for _ in every(EMPTY_LOOK_SECONDS, shutdown.requested):
        try:
            lanes = await store.find_lanes(parts.upkeep, job_types=scope.job_types, queues=scope.queues)
        except StoreUnavailable:
            await parts.upkeep.available(shutdown.requested)
            continue
        empty = 0 if lanes or len(parts.holdings) else empty + 1
        if empty >= EMPTY_LOOKS:
            shutdown.request()


@asynccontextmanager
async def beating(parts: Parts) -> AsyncIterator[None]:
    """Beat from a thread until the block is left, which is when every result is written."""
    async with BlockingPortal() as portal:

        def post(pulse: Pulse) -> None:
            portal.start_task_soon(parts.membership.receive, pulse)

        heart = Heart(
            Beating(
                settings=parts.settings.database,
                interval=parts.settings.lease.beat,
                lease=parts.lease,
                holdings=parts.holdings,
                telemetry=parts.observed.telemetry,
                post=post,
                vitals=parts.watchdog.vitals,
                free_workers=lambda: parts.crew.free,
                beaten=parts.observed.metrics.age("wakeful_beat_age_seconds").reset,
            )
        )
        vitals = parts.watchdog.vitals
        unsubscribe = parts.observed.telemetry.subscribe(vitals.on_event, vitals.wants)
        heart.start()
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(heart.stop)
            unsubscribe()


async def show(parts: Parts, over: anyio.Event) -> None:
    """Keep the gauges of this instance true."""
    metrics = parts.observed.metrics
    slots, used, stuck = (
        metrics.gauge(f"wakeful_{name}") for name in ("worker_slots", "worker_slots_used", "stuck_jobs")
    )
    async for _ in every(SHOW_SECONDS, over):
        slots.set(parts.crew.concurrency)
        used.set(parts.crew.busy)
        stuck.set(len(parts.attempts.stuck))
        await parts.attempts.begun(over, IDLE_LOOK_SECONDS)


async def read_gauges(parts: Parts, over: anyio.Event) -> None:
    """Keep what the whole database is asked for among the gauges."""
    with parts.observed.health.loop("gauges", bound=2 * LOOP_BOUND_SECONDS) as turned:
        await run_gauges(
            parts.upkeep,
            over,
            metrics=parts.observed.metrics,
            instance_id=lambda: parts.lease.owner.instance_id if parts.lease.owner else None,
            turned=turned,
        )


async def measure_lag(parts: Parts, over: anyio.Event) -> None:
    """Measure how late the event loop is, until the end."""
    quiet = partial(parts.attempts.begun, over, IDLE_LOOK_SECONDS)
    async with anyio.create_task_group() as group:
        group.start_soon(partial(watch_lag, parts.observed.health, parts.observed.metrics, quiet=quiet))
        await over.wait()
        group.cancel_scope.cancel()
