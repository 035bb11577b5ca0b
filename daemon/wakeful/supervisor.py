"""The life of one instance, from the first connection to the exit code: read it in the nesting of `live`.

What is opened first is closed last; leaving a block ends what was started in it. The phases: serve, quiesce (claim
nothing more), drain (handlers finish, leases beat, alerts go out), interrupt (the grace is over: handlers are
cancelled, jobs handed back), flush, close. Invariant: a stop loses nothing and is never an error; a loop that fails
as it never should ends the process with its own exit code, after the same orderly stop.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import anyio
from anyio.abc import TaskGroup

from wakeful.aio.shutdown import Shutdown
from wakeful.composition import Observed, Parts, compose
from wakeful.core.settings import Settings
from wakeful.errors import SchemaMismatch
from wakeful.handlers.isolation.pool import open_processes
from wakeful.handlers.registry import Registry
from wakeful.handlers.threads import open_threads
from wakeful.handlers.trailing import run_trailing
from wakeful.loops import (
    Loop,
    Run,
    beating,
    call_outside,
    claim,
    dispatch,
    identify,
    listen,
    measure_lag,
    overseeing,
    put_back_stale,
    read_gauges,
    show,
    start_upkeep,
    stop_when_empty,
    write_reports,
    write_results,
)
from wakeful.outbox.dispatcher import flush_outbox
from wakeful.runtime.attempts import run_overseer
from wakeful.runtime.membership import run_membership
from wakeful.runtime.watchdog import exit_hard
from wakeful.runtime.worker import Workers
from wakeful.starting import (
    Options,
    opened_resources,
    registered,
    served,
    tell_started,
    wait_for_schema,
)
from wakeful.stopping import (
    FLUSH_SECONDS,
    close_tracing,
    drain,
    enter,
    flush,
    hurry_writes,
    interrupt,
    quiesce,
    retire,
)
from wakeful.store.database import open_database
from wakeful.store.outage import Outage
from wakeful.telemetry.events import DAEMON_CRASHED, DAEMON_STOPPED, THREAD_ABANDONED
from wakeful.web.pages import LinkPages

EXIT_CLEAN: Final = 0
EXIT_CRASH: Final = 1
EXIT_CONFIG: Final = 78
HOT_CONNECTIONS: Final = 2


@dataclass(slots=True, kw_only=True)
class Life:
    """One life: how its loops ask for its end, and the exit code that it has come to."""

    observed: Observed
    shutdown: Shutdown
    options: Options
    code: int = EXIT_CLEAN
    began: float = field(default_factory=time.monotonic)

    def runs_in(self, group: TaskGroup) -> Run:
        """Give what starts a loop in a group, guarded."""

        def run(loop: Loop) -> None:
            group.start_soon(self._guarded, loop)

        return run

    async def _guarded(self, loop: Loop) -> None:
        """Run a loop; one that fails as it never should ends this life in the orderly way."""
        try:
            await loop()
        except Exception as error:  # noqa: BLE001 -- whatever it is, jobs are handed back before the process ends
            self.code = EXIT_CONFIG if isinstance(error, SchemaMismatch) else EXIT_CRASH
            self.observed.telemetry.emit(DAEMON_CRASHED, error=error)
            self.shutdown.hurry()


async def live(
    settings: Settings, registry: Registry, observed: Observed, shutdown: Shutdown, options: Options
) -> int:
    """Run one instance until it is asked to stop; gives the exit code. Raises ConfigError and SchemaMismatch."""
    life = Life(observed=observed, shutdown=shutdown, options=options)
    telemetry, outage, database = observed.telemetry, Outage(observed.telemetry), settings.database
    pages = LinkPages(settings, telemetry.redactor)
    async with (
        served(settings, observed, shutdown, options, pages=pages) as url,
        open_database(database, telemetry, outage=outage, connections=HOT_CONNECTIONS) as hot,
        open_database(database, telemetry, outage=outage) as upkeep,
    ):
        if await wait_for_schema(settings, upkeep, observed, shutdown, options):
            async with (
                opened_resources(registry, observed) as resources,
                open_threads(
                    limit=settings.worker.threads, stuck_limit=settings.worker.stuck_limit
                ) as threads,
                open_processes(
                    registry, settings.worker, telemetry=telemetry, stop=shutdown.requested
                ) as processes,
            ):
                parts = compose(
                    settings,
                    registry,
                    observed,
                    databases=(hot, upkeep),
                    resources=resources,
                    threads=threads,
                    processes=processes,
                )
                await _answer(pages, parts, life, url)
        enter(observed, "close")
    if not shutdown.requested.is_set():  # cut short by something that nobody has foreseen
        life.code = EXIT_CRASH
    telemetry.emit(DAEMON_STOPPED, exit_code=life.code, seconds=round(time.monotonic() - life.began, 1))
    return life.code


async def _answer(pages: LinkPages, parts: Parts, life: Life, url: str | None) -> None:
    """Let pages be answered from the database for as long as there is one."""
    with pages.open(parts.upkeep, is_ours=lambda: parts.gate.open):
        await _support(parts, life, url)


async def _support(parts: Parts, life: Life, url: str | None) -> None:
    """What the last handler and the last result still need: beats, writers, alerts, the ear, the watchdog."""
    over = anyio.Event()
    async with anyio.create_task_group() as support, beating(parts):
        run = life.runs_in(support)
        run(lambda: parts.watchdog.pulse(over))
        run(lambda: measure_lag(parts, over))
        run(lambda: show(parts, over))
        run(lambda: read_gauges(parts, over))
        run(lambda: write_results(parts, over))
        run(lambda: write_reports(parts, over))
        run(lambda: run_trailing(parts.executing.trailing, over))
        run(lambda: run_membership(parts.membership, over))
        run(lambda: listen(parts, over))
        run(lambda: identify(parts, over))
        if not life.options.guest:
            run(lambda: parts.gate.while_open(over, lambda: dispatch(parts, over)))
            run(lambda: call_outside(parts, over))
        if await registered(parts, life.shutdown):
            await _work(parts, life, url)
        hurry_writes(parts)
        over.set()
        support.cancel_scope.deadline = anyio.current_time() + 2 * FLUSH_SECONDS
    await retire(parts)
    close_tracing(parts)


async def _work(parts: Parts, life: Life, url: str | None) -> None:
    """What stops first: claiming and upkeep, at once; then the workers, each after its job."""
    quiet, overseen = life.shutdown.requested, anyio.Event()
    async with anyio.create_task_group() as work:
        run = life.runs_in(work)
        workers = Workers(executing=parts.executing, crew=parts.crew, finisher=parts.finisher)
        run(lambda: run_overseer(parts.attempts, overseeing(parts, workers), overseen))
        run(workers.run)
        run(lambda: claim(parts, quiet))
        run(lambda: put_back_stale(parts, quiet))
        start_upkeep(parts, run, quiet, as_guest=life.options.guest)
        if life.options.until_empty:
            run(lambda: stop_when_empty(parts, life.shutdown))
        enter(parts.observed, "serve")
        tell_started(parts)
        life.options.on_serving(url)

        await quiet.wait()
        await quiesce(parts)
        await drain(parts, life.shutdown)
        stuck = await interrupt(parts)
        await flush(parts)
        if stuck:
            await _end_in_spite_of(parts, life, stuck)
        overseen.set()
        hurry_writes(parts)  # what claiming and upkeep still wait for, a lock perhaps, is not waited for


async def _end_in_spite_of(parts: Parts, life: Life, stuck: Sequence[str]) -> None:
    """Handlers that would not end keep their tasks and threads, so nothing but this ends the process."""
    telemetry = parts.observed.telemetry
    telemetry.emit(THREAD_ABANDONED, jobs=stuck)
    hurry_writes(parts)
    if not life.options.guest and parts.gate.open:
        with anyio.move_on_after(FLUSH_SECONDS):
            await flush_outbox(
                parts.upkeep,
                parts.sinks,
                FLUSH_SECONDS,
                telemetry=telemetry,
                settings=parts.settings.outbox,
                policy=parts.policy,
            )
    await retire(parts)
    close_tracing(parts)
    seconds = round(time.monotonic() - life.began, 1)
    telemetry.emit(DAEMON_STOPPED, exit_code=EXIT_CRASH, seconds=seconds)
    exit_hard(EXIT_CRASH)
