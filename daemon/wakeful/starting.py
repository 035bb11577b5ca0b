"""How one instance starts: its probes first, then the database and its schema, the handlers' resources, its row.

Invariant: a database that is not there yet is waited for, with the probes saying so, and a stop ends every wait; a
schema that does not fit ends the start, with the command that helps. Nothing is migrated unless told to.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from threading import Timer
from typing import Final

import anyio

from wakeful.aio.shutdown import Shutdown
from wakeful.composition import Observed, Parts, version
from wakeful.config import current_dsn
from wakeful.core.secrets import shown
from wakeful.core.settings import Settings
from wakeful.core.text import only_member
from wakeful.errors import StoreUnavailable
from wakeful.handlers.registry import Registry
from wakeful.handlers.resources import Resources
from wakeful.runtime.watchdog import exit_hard
from wakeful.store.database import Database
from wakeful.store.migrate import check_schema, migrate
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import (
    DAEMON_STARTED,
    RESOURCES_CLOSED,
    RESOURCES_FAILED,
    RESOURCES_OPENED,
)
from wakeful.web.app import serve_http, url_of
from wakeful.web.pages import LinkPages

CLOSING_SECONDS: Final = 10.0
HURRIED_SECONDS: Final = 1.0
EXIT_UNCLOSED: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How this run differs from a daemon's: `migrate` the schema first; stop when nothing is due (`until_empty`).

    A `guest` works in a database that others look after by their own settings: it prunes, fails and tells nothing.
    """

    migrate: bool = False
    until_empty: bool = False
    guest: bool = False
    port_fallback: bool = False
    on_serving: Callable[[str | None], None] = lambda _url: None


async def wait_for_schema(
    settings: Settings, database: Database, observed: Observed, shutdown: Shutdown, options: Options
) -> bool:
    """Wait for the database with backoff, migrate if told to, check the schema; False when a stop came first."""
    while not shutdown.requested.is_set():
        try:
            if options.migrate:
                paths = settings.jobs.subject_paths
                await migrate(settings.database, observed.telemetry, subject_paths=paths)
            async with _hurried(database, shutdown):
                await check_schema(database)
        except StoreUnavailable:
            await database.available(shutdown.requested)
        else:
            return True
    return False


async def registered(parts: Parts, shutdown: Shutdown) -> bool:
    """Make this instance's row, waiting for the database where need be; False when a stop came first."""
    while not shutdown.requested.is_set():
        try:
            async with _hurried(parts.upkeep, shutdown):
                await parts.membership.register()
        except StoreUnavailable:
            await parts.upkeep.available(shutdown.requested)
        else:
            return True
    return False


@asynccontextmanager
async def _hurried(database: Database, shutdown: Shutdown) -> AsyncIterator[None]:
    """Let a stop end the block's calls soon: nothing runs yet that needs them."""

    async def hurry() -> None:
        await shutdown.requested.wait()
        database.limit(HURRIED_SECONDS)

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(hurry)
            yield
            group.cancel_scope.cancel()
    except BaseExceptionGroup as raised:
        raise only_member(raised) from None


@asynccontextmanager
async def served(
    settings: Settings, observed: Observed, shutdown: Shutdown, options: Options, *, pages: LinkPages
) -> AsyncIterator[str | None]:
    """Serve probes, metrics and pages while the block runs; gives the address, None where HTTP is off."""
    if not settings.http.enabled:
        yield None
        return

    async def serve(*, task_status: anyio.abc.TaskStatus[int]) -> None:
        await serve_http(
            settings.http,
            observed.health,
            observed.metrics,
            observed.telemetry,
            shutdown.requested,
            routes=pages.routes(),
            port_fallback=options.port_fallback,
            task_status=task_status,
        )

    async with anyio.create_task_group() as group:
        port: int = await group.start(serve)
        yield url_of(settings.http.host, port)
        group.cancel_scope.cancel()


@asynccontextmanager
async def opened_resources(registry: Registry, observed: Observed) -> AsyncIterator[Resources]:
    """Open what the handlers share, before the first claim; close it after the last handler."""
    began = time.monotonic()
    async with registry.open_resources() as resources:
        observed.telemetry.emit(RESOURCES_OPENED, seconds=round(time.monotonic() - began, 3))
        yield resources
        closing = time.monotonic()
        last_resort = Timer(CLOSING_SECONDS, _end_without, (observed.telemetry,))
        last_resort.daemon = True
        last_resort.start()
    last_resort.cancel()
    observed.telemetry.emit(RESOURCES_CLOSED, seconds=round(time.monotonic() - closing, 3))


def _end_without(telemetry: Telemetry) -> None:
    """A lifespan that does not close would hold the process for ever; everything of ours is written by now."""
    telemetry.emit(RESOURCES_FAILED, stage="close", error=f"not closed within {CLOSING_SECONDS:g} s")
    exit_hard(EXIT_UNCLOSED)


def tell_started(parts: Parts) -> None:
    """Say who we are and what we claim."""
    owner, settings, registration = parts.lease.owner, parts.settings, parts.membership.registration
    parts.observed.telemetry.emit(
        DAEMON_STARTED,
        instance_id=owner.instance_id if owner else None,
        name=registration.name,
        version=version(),
        pid=registration.pid,
        queues=list(settings.worker.queues),
        job_types=list(parts.claiming.scope.job_types or ()),
        concurrency=settings.worker.concurrency,
        tracing="off" if parts.executing.tracing is None else parts.executing.tracing.mode,
        database=shown(current_dsn(settings.database)),
    )
