"""How late what was due at a moment starts: scheduled jobs, retries, and jobs of producers that commit late.

A handler says when it started by the machine's clock, which the server goes by, too.
"""

from __future__ import annotations

import time

import anyio

from bench.daemons import daemons, until
from bench.figures import Outcome, Sample
from bench.filling import ALL_GONE
from bench.measures.waking import percentiles
from bench.producing import MANY, batch_of, steady
from bench.sizes import Sizes
from bench.stage import Connection, Stage

SCHEDULE = """
select count(*)
from generate_series(1, $1::integer) as g
cross join lateral wakeful.enqueue('bench.clock', run_after => clock_timestamp() + interval '1 second'
                                                  + g * $2::double precision * interval '1 second' / $1::integer)
"""
LATE = """
select (f.result ->> 'at')::float8 - extract(epoch from f.run_after)::float8
from wakeful.finished f where f.job_type = $1
"""
STARTED = "select (f.result ->> 'at')::float8 from wakeful.finished f where f.job_type = 'bench.clock'"
BULK = 50_000


async def scheduled(here: Stage, sizes: Sizes) -> Outcome:
    """Jobs due one by one over some seconds, then jobs that ask for a retry a second later."""
    jobs, seconds = sizes.whole("jobs"), sizes["seconds"]
    async with here.connected() as connection, daemons(here, connection):
        await connection.fetchval(SCHEDULE, jobs, seconds)
        await until(connection, ALL_GONE)
        due = [row[0] for row in await connection.fetch(LATE, "bench.clock")]
        for _ in range(jobs):
            await connection.fetch("select wakeful.enqueue('bench.retry')")
            await anyio.sleep(seconds / jobs)
        await until(connection, ALL_GONE)
        again = [row[0] for row in await connection.fetch(LATE, "bench.retry")]
    how = f"{jobs} jobs over {seconds:.0f} s, from the due time to the start of the handler"
    return Outcome(samples=[*percentiles("scheduled", due, how=how), *percentiles("retries", again, how=how)])


async def late(here: Stage, sizes: Sizes) -> Outcome:
    """Transactions that enqueue, hold for a while and commit, beside a steady load that runs past their positions."""
    hold, producers = sizes["hold"], sizes.whole("producers")
    commits: list[float] = []

    async def produce() -> None:
        async with here.connected() as connection:
            async with connection.transaction():
                await connection.fetch("select wakeful.enqueue('bench.clock')")
                await anyio.sleep(hold)
            commits.append(time.time())

    async with here.connected() as connection, daemons(here, connection), steady(here, rate=sizes["rate"]):
        async with anyio.create_task_group() as group:
            for _ in range(producers):
                await anyio.sleep(0.3)
                group.start_soon(produce)
        await until(
            connection, "select count(*) = $1 from wakeful.finished where job_type = 'bench.clock'", producers
        )
        starts = sorted(row[0] for row in await connection.fetch(STARTED))
    # Each is a job of its own, and they commit in the order in which they began.
    delays = [start - commit for start, commit in zip(starts, sorted(commits), strict=True)]
    how = f"{producers} transactions held {hold:g} s beside {sizes['rate']:g} jobs/s; from the commit to the start"
    return Outcome(
        samples=[
            _sample("late: median", sorted(delays)[len(delays) // 2], how=how),
            _sample("late: slowest", max(delays), how=how),
        ]
    )


async def huge(here: Stage, sizes: Sizes) -> Outcome:
    """One transaction of very many jobs, beside a steady load."""
    jobs = sizes.whole("jobs")
    async with here.connected() as connection, daemons(here, connection), steady(here, rate=sizes["rate"]):
        committed = await _commit_at_once(here, jobs)
        await until(
            connection, "select count(*) >= $1 from wakeful.finished where job_type = 'bench.clock'", jobs
        )
        starts = [row[0] for row in await connection.fetch(STARTED)]
    how = f"{jobs:,} jobs in one transaction beside {sizes['rate']:g} jobs/s; from the commit to the start"
    return Outcome(
        samples=[
            _sample("huge: first start", min(starts) - committed, how=how),
            _sample("huge: last start", max(starts) - committed, how=how),
        ]
    )


async def _commit_at_once(here: Stage, jobs: int) -> float:
    """Enqueue all of them in one transaction; gives the time of its commit."""
    document = batch_of("bench.clock", BULK)
    async with here.connected() as connection:
        async with connection.transaction():
            await _enqueue(connection, document, jobs)
        return time.time()


async def _enqueue(connection: Connection, document: str, jobs: int) -> None:
    for _ in range(jobs // BULK):
        await connection.fetch(MANY, document)


def _sample(name: str, value: float, *, how: str) -> Sample:
    return Sample(name=name, value=value, unit="s", better="lower", how=how)
