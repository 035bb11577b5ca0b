"""The stages of a measurement, in their order, with the instance that is measured running beside them.

Invariant: the clock of the drain starts with the instance up and all jobs there; a stop between any two statements ends
the stages, and what they made is removed by whoever started them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

import anyio

from wakeful.aio.periodic import every
from wakeful.cli.bench.report import Findings, Probes
from wakeful.cli.terminal import say
from wakeful.handlers.context import JobContext
from wakeful.handlers.registry import Registry
from wakeful.store import bench
from wakeful.store.database import Database

PROBES: Final = 50
WAKES: Final = 50
BATCH: Final = 1_000
LOOK_SECONDS: Final = 0.005
PAUSE_SECONDS: Final = 0.02


@dataclass(slots=True)
class Counter:
    """How often the measured handler has started, and whom to tell when that is often enough."""

    runs: int = 0
    wanted: int = 0
    reached: anyio.Event = field(default_factory=anyio.Event)

    def count(self) -> None:
        """One more has started."""
        self.runs += 1
        if self.runs >= self.wanted:
            self.reached.set()

    async def wait_for(self, runs: int) -> None:
        """Wait until it has started so often in all."""
        self.wanted, self.reached = runs, anyio.Event()
        if self.runs < runs:
            await self.reached.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring:
    """One measurement: its name is that of its queue, its job type and its instance."""

    database: Database
    name: str
    jobs: int
    seconds: float
    concurrency: int
    counter: Counter = field(default_factory=Counter)

    def registry(self) -> Registry:
        """The registry of the measured instance, with the one handler that does nothing."""
        registry = Registry()

        async def measured(_job: JobContext) -> None:
            self.counter.count()

        registry.job(self.name, queue=self.name)(measured)
        return registry


async def measured(measuring: Measuring) -> Findings:
    """Probe, enqueue, drain, wake; gives what was found. Raises StoreError."""
    database, name = measuring.database, measuring.name
    probes = await _probed(database)
    say("waking the idle instance")
    wakes_ms = await _woken(measuring)
    say(f"enqueueing {measuring.jobs:,} jobs into the queue {name}")
    await bench.hold(database, name)
    before, _ = await bench.read_server(database)
    began = time.perf_counter()
    jobs = await _filled(measuring)
    enqueue_seconds = time.perf_counter() - began
    between, _ = await bench.read_server(database)
    say(f"draining them, for at most {measuring.seconds:g} s")
    woken = measuring.counter.runs
    drain_seconds, cpu_seconds = await _drained(measuring, jobs)
    after, _ = await bench.read_server(database)
    return Findings(
        probes=probes,
        jobs=jobs,
        enqueue_seconds=enqueue_seconds,
        drained=measuring.counter.runs - woken,
        drain_seconds=drain_seconds,
        cpu_seconds=cpu_seconds,
        wakes_ms=wakes_ms,
        enqueue_wal_bytes=between - before,
        drain_wal_bytes=after - between,
        concurrency=measuring.concurrency,
    )


async def _probed(database: Database) -> Probes:
    _, version = await bench.read_server(database)
    return Probes(
        version=version,
        near=await bench.is_near(database),
        round_trip_ms=await _median_ms(lambda: bench.round_trip(database)),
        commit_ms=await _median_ms(lambda: bench.commit(database, hurried=False)),
        hurried_commit_ms=await _median_ms(lambda: bench.commit(database, hurried=True)),
    )


async def _median_ms(probe: Callable[[], Awaitable[None]]) -> float:
    took = []
    for _ in range(PROBES):
        began = time.perf_counter()
        await probe()
        took.append(time.perf_counter() - began)
    return statistics.median(took) * 1000


async def _filled(measuring: Measuring) -> int:
    """Enqueue all jobs, or as many as the time allows; gives how many."""
    filled, end = 0, time.monotonic() + measuring.seconds
    while filled < measuring.jobs and (filled == 0 or time.monotonic() < end):
        filled += await bench.fill(measuring.database, measuring.name, min(BATCH, measuring.jobs - filled))
    return filled


async def _drained(measuring: Measuring, jobs: int) -> tuple[float, float]:
    """Open the queue and wait for the end of it, or of the time; gives seconds, and processor seconds."""
    counter = measuring.counter
    first = counter.runs + 1
    await bench.release(measuring.database, measuring.name)
    began, used = time.perf_counter(), time.process_time()
    with anyio.move_on_after(measuring.seconds):
        await counter.wait_for(counter.runs + jobs)
        await _until_none_is_left(measuring)
    await counter.wait_for(first)  # a rate needs one at least
    return time.perf_counter() - began, time.process_time() - used


async def _until_none_is_left(measuring: Measuring) -> None:
    async for _ in every(LOOK_SECONDS, anyio.Event()):
        if not await bench.count_left(measuring.database, measuring.name):
            return


async def _woken(measuring: Measuring) -> list[float]:
    """Enqueue one by one; gives the milliseconds from each commit to its start."""
    took = []
    await bench.release(measuring.database, measuring.name)
    for _ in range(WAKES):
        await anyio.sleep(PAUSE_SECONDS)
        before = measuring.counter.runs
        await bench.enqueue(measuring.database, measuring.name)
        committed = time.perf_counter()
        await measuring.counter.wait_for(before + 1)
        took.append((time.perf_counter() - committed) * 1000)
    return took
