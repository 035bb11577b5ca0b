"""WAL for one job, part by part, read from the log itself: enqueue, claim, finish, and what vanishes with history.

Full-page images are counted apart: how many there are depends on how long ago the last checkpoint was, not on us.
"""

from __future__ import annotations

from bench.daemons import daemons
from bench.figures import Outcome, Sample
from bench.filling import Load, close_queues, fill, settle
from bench.measures.drain import timed_drain
from bench.server import Wal, cost_of, mark, wal_between
from bench.sizes import Sizes
from bench.stage import Connection, Stage


async def wal(here: Stage, sizes: Sizes) -> Outcome:
    """With history and without, each in bulk and one by one."""
    jobs, singles = sizes.whole("jobs"), sizes.whole("singles")
    samples: list[Sample] = []
    async with here.connected() as connection:
        samples += await _enqueues(here, connection, singles)
        await connection.execute("truncate wakeful.ready")
        for job_type, what in (("bench.noop", "with history"), ("bench.forgotten", "without history")):
            samples += await _life(here, connection, Load(jobs=jobs, job_type=job_type), what)
    return Outcome(samples=samples)


async def _enqueues(here: Stage, connection: Connection, singles: int) -> list[Sample]:
    await connection.fetch("select wakeful.enqueue('bench.noop') from generate_series(1, 100)")
    first = await mark(here, connection)
    for _ in range(singles):
        await connection.fetch("select wakeful.enqueue('bench.noop')")
    written = await wal_between(connection, first, await mark(here, connection))
    return _pair(
        "enqueue one by one", written, singles, how=f"{singles:,} transactions, each with its commit"
    )


async def _life(here: Stage, connection: Connection, load: Load, what: str) -> list[Sample]:
    """Enqueue in bulk, then claim and finish, the whole of it and the two statements' own."""
    await close_queues(connection, load.queues)
    first = await mark(here, connection)
    await fill(connection, load)
    filled = await wal_between(connection, first, await mark(here, connection))
    await settle(connection)
    before = [await cost_of(connection, one) for one in ("claim", "finish")]
    async with daemons(here, connection) as processes:
        span = await timed_drain(here, connection, load.queues, processes)
    claim, finish = [await cost_of(connection, one) for one in ("claim", "finish")]
    drained = await wal_between(connection, span.first, span.last)
    how, jobs = f"{load.jobs:,} jobs, enqueue_many in batches of 20,000, drained by one daemon", load.jobs
    together = Wal(records=filled.records + drained.records, images=filled.images + drained.images)
    return [
        *_pair(f"whole life, {what}", together, jobs, how=how),
        *_pair(f"enqueue_many, {what}", filled, jobs, how=how)[:1],
        *_pair(f"claim and finish, {what}", drained, jobs, how=how)[:1],
        _sample(f"claim statement, {what}", (claim - before[0]).wal / jobs, how=how),
        _sample(f"finish statement, {what}", (finish - before[1]).wal / jobs, how=how),
    ]


def _pair(what: str, written: Wal, jobs: int, *, how: str) -> list[Sample]:
    images = _sample(f"{what}: full-page images", written.images / jobs, how=how)
    return [_sample(what, written.records / jobs, how=how), images]


def _sample(what: str, value: float, *, how: str) -> Sample:
    return Sample(name=f"wal: {what}", value=value, unit="B a job", better="lower", how=how)
