"""A snapshot that stays open while jobs flow: what kills queues whose claims walk over dead rows.

Quarters are compared: claims by the server's own clock (the median over seconds of the mean in each), and how long jobs
waited. Then, still held, a drain, and the same drain once the snapshot is gone.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import anyio

from bench.daemons import Process, daemons
from bench.figures import Better, Outcome, Sample, Series
from bench.filling import Load, close_queues, fill, settle
from bench.measures.drain import timed_drain
from bench.producing import SteadyProducer, steady
from bench.server import Cost, cost_of
from bench.sizes import Sizes
from bench.stage import Connection, Stage, held_snapshot

WAITS = """
select percentile_cont($3::float8) within group (order by extract(epoch from started_at - created_at)::float8) * 1000
from wakeful.finished
where created_at >= to_timestamp($1) and created_at < to_timestamp($2)
"""
QUEUE = ("default",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Second:
    """What one second brought: claims of the server, jobs finished, jobs that wait at its end."""

    at: float
    claim: Cost
    finished: float
    backlog: int


async def held(here: Stage, sizes: Sizes) -> Outcome:
    """Hold a snapshot, keep a steady load, look each second, then drain held and free."""
    jobs = sizes.whole("drain")
    async with here.connected() as connection, daemons(here, connection) as processes:
        async with held_snapshot(here):
            began = time.time()
            async with steady(here, rate=sizes["rate"]) as producer:
                seconds = await _watched(connection, producer, sizes["seconds"])
            await anyio.sleep(2)
            waits = await _waits(connection, began, sizes["seconds"])
            space = (
                await connection.fetchval("select pg_total_relation_size('wakeful.ready')")
                / producer.enqueued
            )
            in_bonds = await _drained(here, connection, processes, jobs)
        await settle(connection)
        free = await _drained(here, connection, processes, jobs)
    how = f"{sizes['seconds']:g} s at {sizes['rate']:g} jobs/s with a snapshot held open; then {jobs:,} jobs drained"
    kept = Sample(name="held: space of ready a job", value=space, unit="B", better="lower", how=how)
    samples = [*_samples(seconds, waits, in_bonds, free, how=how), kept]
    return Outcome(samples=samples, series=_series(seconds))


async def _watched(connection: Connection, producer: SteadyProducer, seconds: float) -> list[Second]:
    """Look once a second; gives what each second brought."""
    found: list[Second] = []
    claim, finish = await cost_of(connection, "claim"), await cost_of(connection, "finish")
    began = last = time.monotonic()
    done = 0
    while last - began < seconds:
        await anyio.sleep(1.0 - (time.monotonic() - began) % 1.0)
        claims, finishes = await cost_of(connection, "claim"), await cost_of(connection, "finish")
        now, took = time.monotonic(), finishes - finish
        done += took.rows
        found.append(
            Second(
                at=now - began,
                claim=claims - claim,
                finished=took.rows / (now - last),
                backlog=producer.enqueued - done,
            )
        )
        claim, finish, last = claims, finishes, now
    return found


def _call_ms(second: Second) -> float:
    return second.claim.milliseconds / second.claim.calls if second.claim.calls else 0.0


def _job_us(second: Second) -> float:
    return second.claim.milliseconds / second.claim.rows * 1000 if second.claim.rows else 0.0


async def _waits(connection: Connection, began: float, seconds: float) -> list[list[float]]:
    """For each quarter p50 and p99 of the time from enqueue to claim, in milliseconds."""
    edges = [began + seconds * quarter / 4 for quarter in range(5)]
    return [
        [await connection.fetchval(WAITS, start, end, part) or 0.0 for part in (0.5, 0.99)]
        for start, end in itertools.pairwise(edges)
    ]


async def _drained(here: Stage, connection: Connection, processes: Sequence[Process], jobs: int) -> float:
    await close_queues(connection, QUEUE)
    await fill(connection, Load(jobs=jobs))
    return jobs / (await timed_drain(here, connection, QUEUE, processes)).seconds


def _samples(
    seconds: Sequence[Second], waits: Sequence[Sequence[float]], in_bonds: float, free: float, *, how: str
) -> list[Sample]:
    quarter = max(1, len(seconds) // 4)
    first = statistics.median(map(_call_ms, seconds[:quarter]))
    last = statistics.median(map(_call_ms, seconds[-quarter:]))
    first_job = statistics.median(map(_job_us, seconds[:quarter]))
    last_job = statistics.median(map(_job_us, seconds[-quarter:]))

    def sample(what: str, value: float, unit: str, better: Better = "lower") -> Sample:
        return Sample(name=f"held: {what}", value=value, unit=unit, better=better, how=how)

    return [
        sample("claim p50, first quarter", first, "ms"),
        sample("claim p50, last quarter", last, "ms"),
        sample("claim, last / first quarter", last / first if first else 0.0, "x"),
        sample("claim a job, first quarter", first_job, "µs"),
        sample("claim a job, last quarter", last_job, "µs"),
        sample("claim a job, last / first quarter", last_job / first_job if first_job else 0.0, "x"),
        *(sample(f"wait p50, quarter {number}", pair[0], "ms") for number, pair in enumerate(waits, 1)),
        *(sample(f"wait p99, quarter {number}", pair[1], "ms") for number, pair in enumerate(waits, 1)),
        sample("jobs waiting at the end", seconds[-1].backlog, "jobs"),
        sample("drain while held", in_bonds, "jobs/s", "higher"),
        sample("drain when free", free, "jobs/s", "higher"),
        sample("drain, held / free", in_bonds / free, "x", "higher"),
    ]


def _series(seconds: Sequence[Second]) -> list[Series]:
    return [
        Series(name="held: claim", unit="ms", points=[(one.at, _call_ms(one)) for one in seconds]),
        Series(name="held: claim a job", unit="µs", points=[(one.at, _job_us(one)) for one in seconds]),
        Series(name="held: finished", unit="jobs/s", points=[(one.at, one.finished) for one in seconds]),
        Series(name="held: waiting", unit="jobs", points=[(one.at, float(one.backlog)) for one in seconds]),
    ]
