"""Drives the real store and the real runtime one step at a time: for our users' tests, and for our own.

Nothing here is a stand-in. An instance made here registers, claims, executes and finishes exactly as a daemon does; it
only waits to be told each step, and it does not beat, so that a test decides when its lease ends.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Protocol, runtime_checkable

import anyio
from anyio.abc import TaskGroup

from wakeful.core.job import Job
from wakeful.core.outcome import Done, ErrorEntry, Failed
from wakeful.core.pace import Pace
from wakeful.core.settings import DatabaseSettings, Settings
from wakeful.core.text import clean
from wakeful.handlers.control import AttemptControl
from wakeful.handlers.plain import encode, encode_result
from wakeful.handlers.progress import Progress
from wakeful.handlers.registry import Registry, registry_of_any
from wakeful.handlers.steps import ProgressPort, Step
from wakeful.handlers.threads import ThreadPool, open_threads
from wakeful.handlers.trailing import TrailingWrites, run_trailing
from wakeful.runtime.attempts import Attempts, Overseeing, run_overseer
from wakeful.runtime.conclusion import Conclusion, Landing
from wakeful.runtime.executor import Executing, execute
from wakeful.runtime.finisher import Finisher
from wakeful.runtime.flush import Flushing
from wakeful.runtime.holdings import Holding, Holdings
from wakeful.runtime.lease import Lease, Owner, new_incarnation, new_token, suspended_clock
from wakeful.runtime.publishing import published
from wakeful.runtime.reaper import reap_once, run_reaper
from wakeful.runtime.reporter import Reporter
from wakeful.runtime.worker import outcome_of_given_up
from wakeful.store import instances
from wakeful.store import jobs as store
from wakeful.store.database import Database, open_database
from wakeful.store.instances import Registration
from wakeful.telemetry.bus import Telemetry

__all__ = ["Instance", "expire_lease", "instance", "reap", "run_reaper"]

PROGRESS_LIMIT_BYTES = 64 * 1024


@runtime_checkable
class HasDsn(Protocol):
    """Anything that knows the DSN of a database with Wakeful's schema."""

    @property
    def dsn(self) -> str: ...


WhichDatabase = Database | HasDsn | str


class StepReports:
    """The progress of a claimed job: ``async with reports.step("fetch")``."""

    def __init__(self, port: ProgressPort) -> None:
        self._port = port

    def step(self, name: str) -> Step:
        """Enter a step; LeaseLost where the claim does not hold any more."""
        return Step(self._port, name)


class Instance:
    """One instance, step by step. Made by `instance`."""

    def __init__(
        self,
        *,
        owner: Owner,
        database: Database,
        executing: Executing,
        finisher: Finisher,
        holdings: Holdings,
        group: TaskGroup,
        settings: Settings,
    ) -> None:
        self.owner = owner
        self.database = database
        self._executing = executing
        self._finisher = finisher
        self._holdings = holdings
        self._group = group
        self._settings = settings

    @property
    def instance_id(self) -> int:
        """The id in `wakeful.instance`."""
        return self.owner.instance_id

    async def claim(self) -> Job | None:
        """Claim one job of any type; None when there is none to claim."""
        holding = await self._claim()
        return None if holding is None else holding.job

    async def finish(self, job: Job, result: object = None) -> bool:
        """Make a claimed job DONE; False where it is not ours any more."""
        landing = await self._conclude(job, Done(result_text=encode_result(result)))
        return landing.fate == "DONE"

    async def fail(self, job: Job, text: object, delay: float = 0.0) -> str | bool:
        """Fail the attempt; gives the job's new status, or False where it is not ours any more."""
        error = ErrorEntry(type="Failed", message=clean(text, 16 * 1024))
        landing = await self._conclude(job, Failed(error=error, delay=delay))
        return False if landing.fate in ("lost", "unknown") else landing.fate

    async def run_one(self) -> bool:
        """Claim a job, call its handler and wait until its outcome is committed; False when there was nothing."""
        holding = await self._claim()
        if holding is None:
            return False
        landed = anyio.Event()
        self._group.start_soon(self._execute, holding, lambda _landing: landed.set())
        await landed.wait()
        return True

    async def run_all(self) -> int:
        """Run jobs until there is nothing to claim; gives how many."""
        count = 0
        while await self.run_one():
            count += 1
        return count

    def progress(self, job: Job, steps: Sequence[str] = ()) -> StepReports:
        """Report steps of a claimed job as its handler would."""
        control = AttemptControl(job.deadline)
        holding = self._held(job)
        progress = Progress(
            _Writer(self._executing.reporter, holding),
            control,
            attempt=job.attempts,
            steps=steps,
            database_now=lambda: _database_now(holding),
        )
        return StepReports(ProgressPort(progress, self._executing.threads.bridge, control))

    async def set_progress(self, job: Job, document: object) -> bool:
        """Store a progress document as it is; False for a former claim."""
        text = encode(document, PROGRESS_LIMIT_BYTES, "the progress document")
        return await self._executing.reporter.write(self._held(job), text)

    async def _claim(self) -> Holding | None:
        for lane in await store.find_lanes(self.database, job_types=None, queues=None):
            claimed = await store.claim(
                self.database, lane.lane_id, 1, owner=self.owner.pair, token=new_token(), hurried=False
            )
            for one in claimed:
                holding = Holding(
                    job=one.job,
                    lease=self._settings.lease.default,
                    wait=one.wait,
                    snoozed=one.snoozed,
                    suspect=lane.suspect,
                    claimed_at=one.claimed_at,
                )
                self._holdings.add([holding])
                return holding
        return None

    async def _execute(self, holding: Holding, landed: Callable[[Landing], None]) -> None:
        await execute(self._executing, holding, landed=landed)

    async def _conclude(self, job: Job, outcome: Done | Failed) -> Landing:
        landings: list[Landing] = []
        landed = anyio.Event()

        def note(landing: Landing) -> None:
            landings.append(landing)
            landed.set()

        self._finisher.submit(Conclusion(holding=self._held(job), outcome=outcome, landed=note))
        await landed.wait()
        return landings[0]

    def _held(self, job: Job) -> Holding:
        for holding in self._holdings.snapshot():
            if holding.job_id == job.job_id and holding.claim == job.claim:
                return holding
        return Holding(
            job=job,
            lease=self._settings.lease.default,
            wait=0.0,
            snoozed=0.0,
            suspect=False,
            claimed_at=job.created_at,
        )


@asynccontextmanager
async def instance(
    db: WhichDatabase,
    *,
    name: str = "test",
    registry: Registry | Callable[..., object] | None = None,
    deadline: float | None = None,
    backoff: Callable[[int], float] | None = None,
    settings: Settings | None = None,
    telemetry: Telemetry | None = None,
) -> AsyncIterator[Instance]:
    """One registered instance on a database with Wakeful's schema.

    `registry`: the handlers, or one callable for all types. It claims every type, and a job without a handler fails as
    UnknownJobType. `deadline` (seconds) replaces that of the jobs, `backoff` (attempt -> seconds) that of the types.
    """
    bus = telemetry or Telemetry()
    chosen = settings or Settings()
    handlers = registry if isinstance(registry, Registry) else _of_callable(registry)
    async with (
        opened(db, bus) as database,
        open_threads(limit=chosen.worker.threads, stuck_limit=chosen.worker.stuck_limit) as threads,
        handlers.open_resources() as resources,
        anyio.create_task_group() as group,
    ):
        owner, lease = await _register(database, handlers, chosen, name)
        holdings, attempts = Holdings(), Attempts()
        flushing = Flushing(database=database, telemetry=bus, lost_limit=chosen.reaper.lost_limit)
        finisher = Finisher(flushing, holdings)
        executing = Executing(
            find=handlers.find,
            resources=resources,
            threads=threads,
            attempts=attempts,
            reporter=Reporter(database),
            trailing=TrailingWrites(),
            lease=lease,
            pace=Pace(),
            settings=chosen.jobs,
            telemetry=bus,
            submit=finisher.submit,
            deadline=deadline,
            backoff=backoff,
        )
        _start_loops(group, executing, finisher, threads)
        yield Instance(
            owner=owner,
            database=database,
            executing=executing,
            finisher=finisher,
            holdings=holdings,
            group=group,
            settings=chosen,
        )
        group.cancel_scope.cancel()


def _start_loops(group: TaskGroup, executing: Executing, finisher: Finisher, threads: ThreadPool) -> None:
    never = anyio.Event()
    overseeing = Overseeing(
        lease=executing.lease,
        telemetry=executing.telemetry,
        replace=lambda attempt: attempt.on_loop or threads.give_up(attempt.label),
        give_up=lambda attempt: finisher.submit(
            Conclusion(
                holding=attempt.holding,
                outcome=outcome_of_given_up(executing, attempt),
                landed=attempt.landed,
            )
        ),
    )
    group.start_soon(finisher.run, never)
    group.start_soon(executing.reporter.run, never)
    group.start_soon(run_trailing, executing.trailing, never)
    group.start_soon(run_overseer, executing.attempts, overseeing, never)


async def expire_lease(db: WhichDatabase, instance: Instance | int) -> None:
    """Make an instance look as if its beat had stopped long ago; nothing is taken from it until `reap`."""
    instance_id = instance if isinstance(instance, int) else instance.instance_id
    async with opened(db, Telemetry()) as database:
        await database.fetch("expire_lease", instance_id)


@asynccontextmanager
async def opened(db: WhichDatabase, telemetry: Telemetry) -> AsyncIterator[Database]:
    """A `Database` for whatever names one."""
    if isinstance(db, Database):
        yield db
        return
    dsn = db if isinstance(db, str) else db.dsn
    async with open_database(DatabaseSettings(dsn=dsn), telemetry) as database:
        yield database


def _of_callable(function: Callable[..., object] | None) -> Registry:
    return Registry() if function is None else registry_of_any(function)


async def _register(
    database: Database, registry: Registry, settings: Settings, name: str
) -> tuple[Owner, Lease]:
    declared = published(registry.declarations(), settings.lease)
    registration = Registration(
        name=name,
        host=socket.gethostname(),
        pid=os.getpid(),
        version="test",
        lease=settings.lease.default,
        every_type=True,
        serves={str(one["job_type"]): str(one["hash"]) for one in declared},
        queues=("*",),
    )
    incarnation, sent, lease = new_incarnation(), suspended_clock(), Lease()
    owner = Owner(await instances.register(database, registration, incarnation=incarnation), incarnation)
    await instances.publish(database, declared)
    # Nobody beats for it: as far as it is concerned itself, its lease never ends.
    lease.registered(owner, sent=sent + timedelta(days=3650).total_seconds())
    return owner, lease


def _database_now(holding: Holding) -> datetime:
    return holding.claimed_at + timedelta(seconds=time.monotonic() - holding.received)


class _Writer:
    def __init__(self, reporter: Reporter, holding: Holding) -> None:
        self._reporter = reporter
        self._holding = holding

    async def write(self, document: str) -> bool:
        return await self._reporter.write(self._holding, document)

    async def available(self) -> None:
        await self._reporter.available()


async def reap(db: WhichDatabase) -> list[object]:
    """Take back, now and without a watch, the jobs of instances whose lease is past; gives their ids."""
    async with opened(db, Telemetry()) as database:
        return list(await reap_once(database, watch=False))
