"""What `/livez` watches: every loop of a daemon that has to turn, also while there is nothing to do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import pytest

from support.databases import ClonedDatabase
from support.eventually import eventually
from support.working import telling
from wakeful.aio.shutdown import Shutdown
from wakeful.composition import Observed
from wakeful.core.settings import DatabaseSettings, HttpSettings, Settings
from wakeful.handlers.registry import Registry
from wakeful.starting import Options
from wakeful.supervisor import live
from wakeful.telemetry.events import DAEMON_STARTED, LISTENER_CONNECTED
from wakeful.telemetry.health import Health
from wakeful.telemetry.metrics import Metrics

LOOPS = {
    "claimer",
    "dispatcher",
    "duties",
    "event_loop",
    "finisher",
    "finisher_alone",
    "gauges",
    "listener",
    "promoter",
    "reaper",
    "reporter",
}


@dataclass(slots=True)
class Clock:
    """The clock that the health goes by, moved by the test."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def daemon(db: ClonedDatabase, health: Health) -> AsyncIterator[None]:
    """A daemon that serves and listens, with nothing to do, until the block ends."""
    telemetry, recorder = telling()
    settings = Settings(database=DatabaseSettings(dsn=db.dsn), http=HttpSettings(enabled=False))
    observed = Observed(telemetry=telemetry, health=health, metrics=Metrics())
    shutdown = Shutdown()
    async with anyio.create_task_group() as group:
        group.start_soon(live, settings, Registry(), observed, shutdown, Options())
        await recorder.seen(LISTENER_CONNECTED)
        await recorder.seen(DAEMON_STARTED)
        await anyio.wait_all_tasks_blocked()
        yield
        shutdown.request()


@pytest.mark.case("F88")
async def test_every_loop_of_a_daemon_that_serves_is_watched_and_none_after_its_end(
    db: ClonedDatabase,
) -> None:
    clock = Clock()
    health = Health(clock)
    async with daemon(db, health):
        assert health.live() == (True, {})

        async def late() -> set[str]:
            clock.now += 1e6  # none can have turned since
            return set(health.live()[1])

        await eventually(late, until=lambda found: found == LOOPS)

    assert health.live() == (True, {})


async def test_loops_that_wait_for_a_bell_turn_all_the_same(
    db: ClonedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("finisher", "reporter"):
        monkeypatch.setattr(f"wakeful.runtime.{module}.TURN_SECONDS", 0.01)
    clock = Clock()
    health = Health(clock)

    async def stalled() -> set[str]:
        return set(health.live()[1])

    async with daemon(db, health):
        clock.now = 1e6
        await eventually(stalled, until=lambda seen: not seen & {"finisher", "finisher_alone", "reporter"})
