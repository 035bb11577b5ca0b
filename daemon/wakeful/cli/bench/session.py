"""One run of `wakeful bench`, from its checks to the last row that it removes: read it in the nesting of `_bench`.

Invariant: whatever ends it, a result, an error or a signal, the instance ends first, and then all that the measurement
made is removed; where that fails, its name is told, since everything carries it.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final

import anyio

from wakeful.aio.shutdown import Shutdown, hold_signals
from wakeful.cli.bench.measuring import Measuring, measured
from wakeful.cli.bench.report import Findings
from wakeful.cli.exits import CommandFailed
from wakeful.cli.terminal import say
from wakeful.composition import Observed
from wakeful.config import current_dsn
from wakeful.core.settings import Settings
from wakeful.errors import WakefulError
from wakeful.process import observe, run_loop, with_signals
from wakeful.starting import Options
from wakeful.store import bench, reads
from wakeful.store.database import Database, open_database
from wakeful.store.migrate import check_schema
from wakeful.supervisor import live

APPLICATION: Final = "wakeful bench"
PREFIX: Final = "wakeful-bench-"
CLEANING_SECONDS: Final = 120.0
_RIGHTS_HINT: Final = "use a member of wakeful_worker, or the owner of the schema"


@dataclass(slots=True, kw_only=True)
class Session:
    """What lasts for the whole run, and what came of it."""

    settings: Settings
    observed: Observed
    jobs: int
    seconds: float
    found: Findings | None = None
    failed: WakefulError | None = None


def run_bench(settings: Settings, *, jobs: int, seconds: float) -> Findings | None:
    """Measure; None: it was stopped before the end. Raises WakefulError."""
    hold_signals()
    current_dsn(settings.database)
    name = f"{PREFIX}{secrets.token_hex(4)}"
    own = _settings_for(settings, name)
    session = Session(settings=own, observed=observe(own, stream=sys.stderr), jobs=jobs, seconds=seconds)
    telemetry = session.observed.telemetry
    run_loop(lambda: with_signals(lambda shutdown: _bench(session, name, shutdown), telemetry), telemetry)
    return session.found


async def _bench(session: Session, name: str, shutdown: Shutdown) -> int:
    settings, telemetry = session.settings, session.observed.telemetry
    async with open_database(
        settings.database, telemetry, connections=1, application=APPLICATION
    ) as database:
        await check_schema(database)
        await _check_rights(database)
        await _check_neighbours(database)
        async with _opened(database, name):
            measuring = Measuring(
                database=database,
                name=name,
                jobs=session.jobs,
                seconds=session.seconds,
                concurrency=settings.worker.concurrency,
            )
            await _live_beside(session, measuring, shutdown)
    if session.failed is not None:
        raise session.failed
    return 0


@asynccontextmanager
async def _opened(database: Database, name: str) -> AsyncIterator[None]:
    """Hold the measurement's queue while the block runs; at its end nothing is left of it."""
    first = await bench.hold(database, name)
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True, deadline=anyio.current_time() + CLEANING_SECONDS) as cleaning:
            say("removing what was made")
            await bench.forget(database, name, first)
        if cleaning.cancelled_caught:
            say(f"not all could be removed in {CLEANING_SECONDS:g} s: its queue and job type are {name}")


async def _live_beside(session: Session, measuring: Measuring, shutdown: Shutdown) -> None:
    """Run the instance, and the stages beside it once it serves; the end of either ends the other."""

    async def measure() -> None:
        try:
            session.found = await measured(measuring)
        except WakefulError as error:
            session.failed = error
        finally:
            shutdown.hurry()

    async with anyio.create_task_group() as beside:

        def begin(_url: str | None) -> None:
            beside.start_soon(measure)

        options = Options(guest=True, on_serving=begin)
        registry, observed = measuring.registry(), session.observed
        code = await live(session.settings, registry, observed, shutdown, options)
        beside.cancel_scope.cancel()
    if code and session.failed is None:
        session.failed = CommandFailed("the measured instance did not end as it should")


async def _check_rights(database: Database) -> None:
    missing = await bench.missing_rights(database)
    if missing:
        raise CommandFailed(
            f"this database role could not remove what a measurement makes: it lacks {', '.join(missing)}",
            hint=_RIGHTS_HINT,
        )


async def _check_neighbours(database: Database) -> None:
    """An instance that serves every type would take the jobs that are measured, and fail them."""
    for one in await reads.list_instances(database):
        if one.every_type and one.state == "live" and one.lease_left > 0:
            raise CommandFailed(
                f"the instance {one.name} (process {one.pid} on {one.host}) serves every job type: "
                "it would take the jobs that are measured",
                hint="stop it first, or measure with another database of this server",
            )


def _settings_for(settings: Settings, name: str) -> Settings:
    """The user's settings, with the measurement's own queue and name, quiet, and without a page."""
    return replace(
        settings,
        handlers=(),
        queues={},
        worker=replace(settings.worker, name=name, queues=(name,)),
        http=replace(settings.http, enabled=False),
        log=replace(settings.log, level="error"),
    )
