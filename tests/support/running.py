"""One whole instance without its process: the daemon's own parts and loops, to look into while they run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace

import anyio

from support.databases import ClonedDatabase
from support.working import telling
from wakeful import loops
from wakeful.composition import Observed, Parts, compose
from wakeful.core.outcome import HandedBack
from wakeful.core.settings import (
    LeaseSettings,
    PollSettings,
    QueueSettings,
    Settings,
    WorkerSettings,
)
from wakeful.handlers.isolation.pool import open_processes
from wakeful.handlers.registry import Registry
from wakeful.handlers.threads import open_threads
from wakeful.handlers.trailing import run_trailing
from wakeful.runtime.attempts import run_overseer
from wakeful.runtime.conclusion import Conclusion
from wakeful.runtime.membership import run_membership
from wakeful.runtime.worker import Workers
from wakeful.store.database import open_database
from wakeful.store.outage import Outage
from wakeful.telemetry.health import Health
from wakeful.telemetry.metrics import Metrics
from wakeful.telemetry.recorder import Recorder

__all__ = ["QueueSettings", "Running", "brisk", "running"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """The parts of an instance that runs, and what it said."""

    parts: Parts
    recorder: Recorder

    @property
    def instance_id(self) -> int:
        """Its number."""
        owner = self.parts.lease.owner
        assert owner is not None
        return owner.instance_id


def brisk(*, concurrency: int = 4, stuck_limit: int = 10, threads: int = 10, **queues: int) -> Settings:
    """Settings for a test: polls and beats many times a second. Queues are given with their caps."""
    return Settings(
        worker=WorkerSettings(concurrency=concurrency, stuck_limit=stuck_limit, threads=threads),
        poll=PollSettings(min=0.02, max=0.1),
        lease=LeaseSettings(beat=0.05),
        queues={name: QueueSettings(concurrency=cap) for name, cap in queues.items()},
    )


@asynccontextmanager
async def running(
    db: ClonedDatabase | str, registry: Registry, *, settings: Settings | None = None, beat: bool = True
) -> AsyncIterator[Running]:
    """Run an instance until the block ends; then it claims nothing more, and its handlers are waited for."""
    dsn = db if isinstance(db, str) else db.dsn
    chosen = settings or brisk()
    chosen = replace(chosen, database=replace(chosen.database, dsn=dsn, connect_timeout=2.0))
    telemetry, recorder = telling()
    observed = Observed(telemetry=telemetry, health=Health(), metrics=Metrics())
    outage = Outage(telemetry)
    async with (
        open_database(chosen.database, telemetry, outage=outage) as hot,
        open_database(chosen.database, telemetry, outage=outage) as upkeep,
        registry.open_resources() as resources,
        open_threads(limit=chosen.worker.threads, stuck_limit=chosen.worker.stuck_limit) as threads,
        open_processes(registry, chosen.worker) as processes,
    ):
        parts = compose(
            chosen,
            registry,
            observed,
            databases=(hot, upkeep),
            resources=resources,
            threads=threads,
            processes=processes,
        )
        parts.gate.let_through()
        await parts.membership.register()
        async with _supported(parts, beat=beat):
            yield Running(parts=parts, recorder=recorder)


@asynccontextmanager
async def _supported(parts: Parts, *, beat: bool) -> AsyncIterator[None]:
    over = anyio.Event()
    async with anyio.create_task_group() as support, loops.beating(parts) if beat else nullcontext():
        support.start_soon(parts.finisher.run, over)
        support.start_soon(parts.reporter.run, over)
        support.start_soon(run_trailing, parts.executing.trailing, over)
        support.start_soon(run_membership, parts.membership, over)
        async with _working(parts):
            yield
        over.set()


@asynccontextmanager
async def _working(parts: Parts) -> AsyncIterator[None]:
    quiet, overseen = anyio.Event(), anyio.Event()
    async with anyio.create_task_group() as work:
        workers = Workers(executing=parts.executing, crew=parts.crew, finisher=parts.finisher)
        work.start_soon(run_overseer, parts.attempts, loops.overseeing(parts, workers), overseen)
        work.start_soon(workers.run)
        for loop in (loops.claim, loops.promote, loops.put_back_stale):
            work.start_soon(loop, parts, quiet)
        try:
            yield
        finally:
            quiet.set()
            for holding in parts.crew.close():
                parts.finisher.submit(Conclusion(holding=holding, outcome=HandedBack(counted=False)))
        await parts.attempts.idle()
        overseen.set()
