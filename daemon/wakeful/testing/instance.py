"""One instance of the real runtime that takes a step when a test says so.

It registers, claims, executes and finishes exactly as a daemon does; it only waits to be told each step, and does not
beat by itself, so that a test decides when its lease ends.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Final

import anyio
from anyio.abc import TaskGroup

from wakeful.aio.wakeup import Wakeup
from wakeful.composition import Observed, Parts, compose
from wakeful.core.job import Job
from wakeful.core.outcome import Done, ErrorEntry, Failed
from wakeful.core.pace import Pace
from wakeful.core.settings import Settings
from wakeful.core.text import ERROR_LIMIT_BYTES, clean
from wakeful.errors import StoreUnavailable
from wakeful.handlers.control import AttemptControl
from wakeful.handlers.isolation.pool import open_processes
from wakeful.handlers.plain import encode, encode_result
from wakeful.handlers.registry import Registry, registry_of_any
from wakeful.handlers.steps import ProgressPort, Step
from wakeful.handlers.threads import open_threads
from wakeful.handlers.trailing import run_trailing
from wakeful.runtime.apart import apart, ended
from wakeful.runtime.attempts import Overseeing, run_overseer
from wakeful.runtime.beat import Beating, beat_once
from wakeful.runtime.claimer import claim_round
from wakeful.runtime.conclusion import Conclusion, Landing
from wakeful.runtime.crew import Crew
from wakeful.runtime.executor import execute
from wakeful.runtime.holdings import Holding
from wakeful.runtime.lease import suspended_clock
from wakeful.runtime.preparing import progress_of
from wakeful.runtime.worker import outcome_of_given_up
from wakeful.stopping import close_tracing
from wakeful.store import instances
from wakeful.store.database import Database
from wakeful.store.jobs import Claimed
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.health import Health
from wakeful.telemetry.metrics import Metrics
from wakeful.testing.databases import WhichDatabase, opened

PROGRESS_LIMIT_BYTES: Final = 64 * 1024
_FOR_EVER: Final = timedelta(days=3650).total_seconds()


class StepReports:
    """The progress of a claimed job: ``async with reports.step("fetch")``."""

    def __init__(self, port: ProgressPort) -> None:
        self._port = port

    def step(self, name: str) -> Step:
        """Enter a step; LeaseLost where the claim does not hold any more."""
        return Step(self._port, name)


class Instance:
    """One instance, step by step. Made by `instance`."""

    def __init__(self, parts: Parts, group: TaskGroup, instance_id: int) -> None:
        self._parts = parts
        self._group = group
        self.instance_id = instance_id

    async def claim(self) -> Job | None:
        """Claim one job of any type, in the daemon's own order; None when there is none to claim."""
        holding = await self._claim()
        return None if holding is None else holding.job

    async def finish(self, job: Job, result: object = None) -> bool:
        """Make a claimed job DONE; False where it is not ours any more."""
        landing = await self._conclude(job, Done(result_text=encode_result(result)))
        return landing.fate == "DONE"

    async def fail(self, job: Job, text: object, delay: float = 0.0) -> str | bool:
        """Fail the attempt; gives the job's new status, or False where it is not ours any more."""
        error = ErrorEntry(type="Failed", message=clean(text, ERROR_LIMIT_BYTES // 2))
        landing = await self._conclude(job, Failed(error=error, delay=delay))
        return False if landing.fate in ("lost", "unknown") else landing.fate

    async def run_one(self) -> bool:
        """Claim a job, call its handler and wait until its outcome is committed; False when there was nothing."""
        holding = await self._claim()
        if holding is None:
            return False
        landed = anyio.Event()
        self._group.start_soon(self._execute, holding, landed)
        await landed.wait()
        return True

    async def run_all(self) -> int:
        """Run jobs, one after the other, until there is nothing to claim; gives how many attempts were made."""
        count = 0
        while await self.run_one():
            count += 1
        return count

    async def beat(self) -> bool:
        """One heartbeat: running handlers learn of cancellations and lost jobs. False: it was taken for dead."""
        parts, owner = self._parts, self._parts.lease.owner
        if owner is None:
            return False
        beating = Beating(
            settings=parts.settings.database,
            interval=parts.settings.lease.beat,
            lease=parts.lease,
            holdings=parts.holdings,
            telemetry=parts.observed.telemetry,
            post=parts.membership.receive,
        )
        return await beat_once(beating, parts.hot, owner)

    def progress(self, job: Job, steps: Sequence[str] = ()) -> StepReports:
        """Report steps of a claimed job as its handler would."""
        executing, control = self._parts.executing, AttemptControl(job.deadline)
        progress = progress_of(executing, self._held(job), control, steps)
        return StepReports(ProgressPort(lambda: progress, executing.threads.bridge, control))

    async def set_progress(self, job: Job, document: object) -> bool:
        """Store a progress document as it is; False for a former claim."""
        text = encode(document, PROGRESS_LIMIT_BYTES, "the progress document")
        return await self._parts.reporter.write(self._held(job), text)

    async def _claim(self) -> Holding | None:
        # With a crew of one that is free, and a pace that knows nothing, the claimer's own round claims one job.
        crew = Crew(1, Wakeup())
        try:
            await claim_round(replace(self._parts.claiming, crew=crew))
            return await crew.next() if crew.waiting else None
        finally:
            crew.close()

    async def _execute(self, holding: Holding, landed: anyio.Event) -> None:
        await ended(apart(execute(self._parts.executing, holding, landed=lambda _landing: landed.set())))

    async def _conclude(self, job: Job, outcome: Done | Failed) -> Landing:
        landings: list[Landing] = []
        landed = anyio.Event()

        def note(landing: Landing) -> None:
            landings.append(landing)
            landed.set()

        self._parts.finisher.submit(Conclusion(holding=self._held(job), outcome=outcome, landed=note))
        await landed.wait()
        return landings[0]

    def _held(self, job: Job) -> Holding:
        for holding in self._parts.holdings.snapshot():
            if holding.job_id == job.job_id and holding.claim == job.claim:
                return holding
        # A former claim: the fence has to refuse it, not this process.
        return Holding(Claimed(job, 0.0, 0.0, 0.0), self._parts.settings.lease.default)


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
    bus = telemetry or (db.telemetry if isinstance(db, Database) else Telemetry())
    chosen = settings or Settings()
    chosen = replace(chosen, worker=replace(chosen.worker, name=name))
    handlers = registry if isinstance(registry, Registry) else _of_callable(registry)
    observed = Observed(telemetry=bus, health=Health(), metrics=Metrics())
    async with (
        opened(db, bus) as database,
        open_threads(limit=chosen.worker.threads, stuck_limit=chosen.worker.stuck_limit) as threads,
        open_processes(handlers, chosen.worker) as processes,
        handlers.open_resources() as resources,
        anyio.create_task_group() as group,
    ):
        parts = compose(
            chosen,
            handlers,
            observed,
            databases=(database, database),
            resources=resources,
            threads=threads,
            processes=processes,
        )
        parts = replace(
            _step_by_step(parts), executing=replace(parts.executing, deadline=deadline, backoff=backoff)
        )
        owner = await parts.membership.register()
        # It beats only when told to: as far as it is concerned itself, its lease never ends.
        parts.lease.beaten(owner, sent=suspended_clock() + _FOR_EVER)
        _start_loops(group, parts)
        try:
            yield Instance(parts, group, owner.instance_id)
        finally:
            group.cancel_scope.cancel()
            parts.crew.close()
            with anyio.CancelScope(shield=True), suppress(StoreUnavailable):
                await instances.retire(database, owner.pair)
            close_tracing(parts)


def _step_by_step(parts: Parts) -> Parts:
    """The same parts, for an instance that serves every type and claims nothing ahead."""
    parts.membership.registration = replace(parts.membership.registration, every_type=True)
    scope = replace(parts.claiming.scope, job_types=None)
    claiming = replace(parts.claiming, scope=scope, pace=Pace(), is_open=lambda: True)
    return replace(parts, claiming=claiming)


def _start_loops(group: TaskGroup, parts: Parts) -> None:
    never, executing, finisher = anyio.Event(), parts.executing, parts.finisher
    overseeing = Overseeing(
        lease=parts.lease,
        telemetry=parts.observed.telemetry,
        replace=lambda attempt: attempt.on_loop or executing.threads.give_up(attempt.label),
        give_up=lambda attempt: executing.submit(
            Conclusion(
                holding=attempt.holding,
                outcome=outcome_of_given_up(executing, attempt),
                landed=attempt.landed,
            )
        ),
    )
    group.start_soon(finisher.run, never)
    group.start_soon(parts.reporter.run, never)
    group.start_soon(run_trailing, executing.trailing, never)
    group.start_soon(run_overseer, parts.attempts, overseeing, never)


def _of_callable(function: Callable[..., object] | None) -> Registry:
    return Registry() if function is None else registry_of_any(function)
