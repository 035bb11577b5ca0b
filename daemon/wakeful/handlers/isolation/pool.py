"""The processes of handlers: bounded, started when they are wanted, kept warm, and replaced before they grow old.

Invariant: a process runs one job at a time, and a job never has a process that is not ready. One that has run many
jobs, has grown, or did not answer is replaced. A job that waits for a process has not begun: its deadline counts later.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import copy_context
from functools import partial
from typing import Final

import anyio
from anyio.abc import TaskGroup

from wakeful.aio.periodic import cancel_when_set
from wakeful.core.settings import WorkerSettings
from wakeful.core.text import only_member
from wakeful.errors import ConfigError, ProcessDied
from wakeful.handlers.context import JobContext, inside
from wakeful.handlers.handler import Handler
from wakeful.handlers.isolation.carrying import Carrying
from wakeful.handlers.isolation.process import MIB, Launch, Process, greet, start_process
from wakeful.handlers.registry import Registry
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import PROCESS_ENDED, PROCESS_STARTED

# A process that has kept more than this share of its limit after a job would soon pass it.
GROWN: Final = 0.5
# A process that dies before it has begun (it was idle when it did, perhaps) costs its next job nothing but another try.
TRIES: Final = 3


class ProcessPool:
    """At most `worker.processes` jobs at once, and as many processes; made by `open_processes`, used on that loop."""

    def __init__(
        self, launch: Launch, worker: WorkerSettings, group: TaskGroup, telemetry: Telemetry
    ) -> None:
        self._telemetry = telemetry
        self._launch = launch
        self._worker = worker
        self._group = group
        self._processes: set[Process] = set()
        self._starting = 0
        self._idle: list[Process] = []
        self._wanting: deque[asyncio.Future[Process]] = deque()
        self._waiting: set[str] = set()
        self._closed = False
        self._context = copy_context()  # of what belongs to no attempt, whoever wants it

    async def run(self, job: JobContext) -> object:
        """Run a job's handler in a process; gives what it returned. Raises what it raised, ProcessDied and the like."""
        for _ in range(TRIES - 1):
            carrying = await self._carrying(job)
            try:
                return await self._seen_through(carrying)
            except ProcessDied:
                if carrying.counts:
                    raise
        return await self._seen_through(await self._carrying(job))

    def waits(self, label: str) -> bool:
        """Whether the job of this label waits for a process: nothing of it has run."""
        return label in self._waiting

    def carries(self, _label: str) -> bool:
        """Whether the job of this label can't be stopped: never, since its process can be killed."""
        return False

    @property
    def pids(self) -> tuple[int, ...]:
        """The numbers of all processes."""
        return tuple(one.pid for one in self._processes)

    @property
    def idle(self) -> int:
        """How many of them have no job."""
        return len(self._idle)

    async def try_one(self) -> None:
        """Start a process and keep it. Raises ConfigError where its handlers are not found there, and ProcessDied."""
        self._starting += 1
        self._offer(await self._start())

    async def close(self) -> None:
        """End all processes: those that are idle may leave their lifespans, the others are killed."""
        self._closed = True
        for process in self._processes - set(self._idle):
            process.kill()
        async with anyio.create_task_group() as leaving:
            for process in self._idle:
                leaving.start_soon(process.leave)
        self._group.cancel_scope.cancel()

    async def _carrying(self, job: JobContext) -> Carrying:
        seconds = job.time_left()
        process = await self._take(job.label)
        inside(job).port.control.restart(seconds)  # it has waited, and begins now
        return Carrying(process, job)

    async def _seen_through(self, carrying: Carrying) -> object:
        try:
            return await carrying.see_through()
        finally:
            self._give_back(carrying.process, answered=carrying.answered)

    async def _take(self, label: str) -> Process:
        if self._idle:
            return self._idle.pop()
        wanted: asyncio.Future[Process] = asyncio.get_running_loop().create_future()
        self._wanting.append(wanted)
        self._waiting.add(label)
        self._start_wanted()
        try:
            return await wanted
        except asyncio.CancelledError:
            if wanted.done() and not wanted.cancelled() and wanted.exception() is None:
                self._offer(wanted.result())
            raise
        finally:
            self._waiting.discard(label)

    def _start_wanted(self) -> None:
        """Start what is wanted and may be; a start goes on although nobody may wait for it any more."""
        wanted = sum(not one.done() for one in self._wanting)
        room = self._worker.processes - len(self._processes) - self._starting
        for _ in range(0 if self._closed else min(room, wanted - self._starting)):
            self._starting += 1
            self._context.copy().run(self._group.start_soon, self._start_for_anyone)

    async def _start_for_anyone(self) -> None:
        try:
            self._offer(await self._start())
        except (ConfigError, ProcessDied, OSError) as error:
            wanted = self._next_wanted()
            if wanted is not None:
                wanted.set_exception(error)
            self._start_wanted()

    async def _start(self) -> Process:
        began = time.monotonic()
        try:
            process = await start_process(self._launch)
            self._processes.add(process)
        finally:
            self._starting -= 1
        self._context.copy().run(self._group.start_soon, process.watch, partial(self._forget, process))
        try:
            await greet(process)
        except BaseException:
            process.kill()
            raise
        seconds = round(time.monotonic() - began, 3)
        self._telemetry.emit(PROCESS_STARTED, process=process.pid, seconds=seconds)
        return process

    def _forget(self, process: Process) -> None:
        self._processes.discard(process)
        self._idle = [one for one in self._idle if one is not process]
        how = process.how_it_ended
        self._telemetry.emit(PROCESS_ENDED, process=process.pid, how=how, jobs=process.attempts)
        self._start_wanted()

    def _give_back(self, process: Process, *, answered: bool) -> None:
        if not answered or process.code is not None:
            process.kill()
        elif self._is_old(process):
            self._context.copy().run(self._group.start_soon, process.leave)
        else:
            self._offer(process)

    def _is_old(self, process: Process) -> bool:
        grown = self._launch.memory and process.memory_used > GROWN * self._launch.memory
        return bool(grown) or process.attempts >= self._worker.process_jobs

    def _offer(self, process: Process) -> None:
        wanted = self._next_wanted()
        if wanted is None:
            self._idle.append(process)
        else:
            wanted.set_result(process)

    def _next_wanted(self) -> asyncio.Future[Process] | None:
        while self._wanting:
            wanted = self._wanting.popleft()
            if not wanted.done():
                return wanted
        return None


@asynccontextmanager
async def open_processes(
    registry: Registry,
    worker: WorkerSettings,
    *,
    telemetry: Telemetry | None = None,
    stop: anyio.Event | None = None,
) -> AsyncIterator[ProcessPool]:
    """Give the pool of one daemon, with a first process where a type wants one: whether it can is known at the start.

    `stop` ends the wait for it, since then nobody will want it. Raises ConfigError and ProcessDied.
    """
    launch, told = launch_of(registry, worker), telemetry or Telemetry()
    try:
        async with (
            anyio.create_task_group() as group,
            _closed(ProcessPool(launch, worker, group, told)) as pool,
        ):
            if launch.job_types:
                await _try_one(pool, stop or anyio.Event())
            yield pool
    except BaseExceptionGroup as raised:
        raise only_member(raised) from None


async def _try_one(pool: ProcessPool, stop: anyio.Event) -> None:
    async with anyio.create_task_group() as trying:
        trying.start_soon(cancel_when_set, stop, trying.cancel_scope)
        await pool.try_one()
        trying.cancel_scope.cancel()


@asynccontextmanager
async def _closed(pool: ProcessPool) -> AsyncIterator[ProcessPool]:
    try:
        yield pool
    finally:
        with anyio.CancelScope(shield=True):
            await pool.close()


def launch_of(registry: Registry, worker: WorkerSettings) -> Launch:
    """What the processes of a registry are told: they import the same modules, else the handlers' own."""
    isolated = [one for one in registry.handlers() if one.is_isolated]
    own = dict.fromkeys(_module_of(one) for one in isolated)
    return Launch(
        modules=registry.modules or tuple(own),
        job_types=tuple(one.job_type for one in isolated),
        memory=worker.process_memory * MIB,
        secret_types=frozenset(one.job_type for one in isolated if one.declaration.secret_paths),
    )


def _module_of(handler: Handler) -> str:
    return str(getattr(handler.function, "__module__", "__main__"))
