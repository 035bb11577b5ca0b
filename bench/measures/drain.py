"""Drains: no-op jobs lie ready, daemons wait, the queue opens at one moment, and the clock runs until all are done.

The rate is of the wall's clock. The processor time a job, of the daemons and of the server, is what a machine that
others use, too, leaves true.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bench.daemons import Process, daemons, until
from bench.figures import Outcome, Sample
from bench.filling import (
    AS_BEFORE,
    BY_KEY,
    LAST_GONE,
    SPANS,
    SPANS_GONE,
    Load,
    close_queues,
    fill,
    open_queues,
    settle,
)
from bench.processes import cpu_seconds
from bench.server import Mark, mark, wal_between
from bench.sizes import Sizes
from bench.stage import Connection, Stage, held_snapshot

# What jobs that wait for something want; no-op jobs gain nothing by it.
MANY_WORKERS: Mapping[str, object] = {"worker__concurrency": 100}


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """One kind of drain, named as its figures are."""

    name: str
    load: Callable[[int], Load]
    settings: Mapping[str, object] = field(default_factory=dict)
    daemons: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """What one drain took: wall seconds, processor seconds of the daemons, and the server's marks round it."""

    seconds: float
    cpu: float
    first: Mark
    last: Mark


def drain(kind: Drain) -> Callable[[Stage, Sizes], Awaitable[Outcome]]:
    """The measurement of this kind; its size is `jobs`."""

    async def measure(here: Stage, sizes: Sizes) -> Outcome:
        load = kind.load(sizes.whole("jobs"))
        async with here.connected() as connection:
            await close_queues(connection, load.queues)
            await fill(connection, load)
            await settle(connection)
            async with daemons(here, connection, number=kind.daemons, settings=kind.settings) as processes:
                span = await timed_drain(here, connection, load.queues, processes)
            return Outcome(samples=await _samples(connection, kind, load, span))

    return measure


def drain_held(kind: Drain) -> Callable[[Stage, Sizes], Awaitable[Outcome]]:
    """Two drains of this kind while a snapshot is held: the second one meets what the first one has left."""

    async def measure(here: Stage, sizes: Sizes) -> Outcome:
        load, rates = kind.load(sizes.whole("jobs")), []
        async with (
            here.connected() as connection,
            held_snapshot(here),
            daemons(here, connection, number=kind.daemons, settings=kind.settings) as processes,
        ):
            for _ in range(2):
                await close_queues(connection, load.queues)
                await fill(connection, load)
                await settle(connection)
                span = await timed_drain(here, connection, load.queues, processes)
                rates.append(load.jobs / span.seconds)
        how = f"two drains of {load.jobs:,} jobs while a snapshot is held open, the second rate by the first"
        name, value = f"{kind.name}: held, second / first", rates[1] / rates[0]
        return Outcome(samples=[Sample(name=name, value=value, unit="x", better="higher", how=how)])

    return measure


async def timed_drain(
    here: Stage, connection: Connection, queues: Sequence[str], processes: Sequence[Process]
) -> Span:
    """Open the queues and wait until nothing is left."""
    spans = await connection.fetchrow(SPANS)
    assert spans is not None, "an aggregate has a row"
    first = await mark(here, connection)
    await connection.execute(BY_KEY)
    used, began = _used(processes), time.perf_counter()
    await open_queues(connection, queues)
    await until(connection, LAST_GONE, *spans)
    await until(connection, SPANS_GONE, *spans)
    seconds = time.perf_counter() - began
    cpu = _used(processes) - used
    await connection.execute(AS_BEFORE)
    return Span(seconds=seconds, cpu=cpu, first=first, last=await mark(here, connection))


def _used(processes: Sequence[Process]) -> float:
    return sum(cpu_seconds(process.pid) for process in processes)


async def _samples(connection: Connection, kind: Drain, load: Load, span: Span) -> list[Sample]:
    wal = await wal_between(connection, span.first, span.last)
    name, how = kind.name, f"{load.jobs:,} {load.job_type}, {kind.daemons} daemon(s), {_told(kind.settings)}"
    server = span.last.cpu - span.first.cpu

    def a_job(what: str, value: float, unit: str) -> Sample:
        return Sample(name=f"{name}: {what}", value=value / load.jobs, unit=unit, better="lower", how=how)

    return [
        Sample(name=f"{name}: rate", value=load.jobs / span.seconds, unit="jobs/s", better="higher", how=how),
        a_job("daemon CPU a job", span.cpu * 1e6, "µs"),
        a_job("server CPU a job", server * 1e6, "µs"),
        a_job("WAL a job", wal.records, "B"),
    ]


def _told(settings: Mapping[str, object]) -> str:
    return ", ".join(f"{key.replace('__', '.')}={value}" for key, value in settings.items()) or "defaults"
