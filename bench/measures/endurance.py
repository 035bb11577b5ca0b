"""Memory over very many jobs, and how long a kill -9 costs at defaults."""

from __future__ import annotations

import signal
import statistics
import time

import anyio

from bench.daemons import daemons, until
from bench.figures import Outcome, Sample, Series
from bench.filling import ALL_GONE, Load, fill
from bench.processes import resident_megabytes
from bench.sizes import Sizes
from bench.stage import Stage

STEP = 50_000


async def memory(here: Stage, sizes: Sizes) -> Outcome:
    """Drain step by step in one daemon; a look at its memory after each step."""
    points: list[tuple[float, float]] = []
    async with here.connected() as connection, daemons(here, connection) as (process,):
        for done in range(STEP, sizes.whole("jobs") + 1, STEP):
            await fill(connection, Load(jobs=STEP))
            await until(connection, ALL_GONE)
            points.append((float(done), resident_megabytes(process.pid)))
            await connection.execute("truncate wakeful.finished")
    sizes_seen = [megabytes for _, megabytes in points]
    quarter = max(1, len(points) // 4)
    after, end = statistics.median(sizes_seen[:quarter]), statistics.median(sizes_seen[-quarter:])
    how = (
        f"one daemon, {sizes.whole('jobs'):,} jobs in steps of {STEP:,}; resident memory, medians of quarters"
    )
    return Outcome(
        samples=[
            Sample(name="memory: first quarter", value=after, unit="MB", better="lower", how=how),
            Sample(name="memory: last quarter", value=end, unit="MB", better="lower", how=how),
            Sample(name="memory: growth", value=end - after, unit="MB", better="lower", how=how),
        ],
        series=[Series(name="memory over jobs", unit="MB", points=points)],
    )


async def kill(here: Stage, sizes: Sizes) -> Outcome:
    """Two daemons at work, one killed with -9: the time until all that it had is done."""
    jobs = sizes.whole("jobs")
    async with here.connected() as connection:
        async with daemons(here, connection, number=2) as (victim, _):
            await connection.fetch(
                "select wakeful.enqueue('bench.sleep') from generate_series(1, $1::integer)", jobs
            )
            await until(
                connection, "select count(distinct owner) = 2 from wakeful.ready where owner is not null"
            )
            await anyio.sleep(1)
            victim.send_signal(signal.SIGKILL)
            killed = time.perf_counter()
            await until(connection, ALL_GONE)
            seconds = time.perf_counter() - killed
        done = await connection.fetchval("select count(*) from wakeful.finished where status = 'DONE'")
        twice = await connection.fetchval("select count(*) from wakeful.finished where run_no > 1")
    how = f"{jobs} jobs of half a second, two daemons at defaults, kill -9 of one while both work"
    return Outcome(
        samples=[
            Sample(name="kill: until all is done", value=seconds, unit="s", better="lower", how=how),
            Sample(name="kill: jobs lost", value=float(jobs - done), unit="jobs", better="lower", how=how),
            Sample(name="kill: jobs run again", value=float(twice), unit="jobs", better="lower", how=how),
        ]
    )
