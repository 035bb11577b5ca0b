"""What a daemon costs that has nothing to do: statements, processor time, memory."""

from __future__ import annotations

import asyncio

from bench.daemons import daemons
from bench.figures import Better, Outcome, Sample
from bench.processes import cpu_seconds, resident_megabytes
from bench.server import mark
from bench.sizes import Sizes
from bench.stage import Stage


async def idle(here: Stage, sizes: Sizes) -> Outcome:
    """Let it settle to the slow poll, then watch it."""
    seconds = sizes["seconds"]
    async with here.connected() as connection, daemons(here, connection) as (process,):
        await asyncio.sleep(sizes["settle"])
        first, used = await mark(here, connection), cpu_seconds(process.pid)
        await asyncio.sleep(seconds)
        share = (cpu_seconds(process.pid) - used) / seconds
        last, memory = await mark(here, connection), resident_megabytes(process.pid)
    ours = 2  # the two that read the counters
    how = f"{seconds:.0f} s, from {sizes['settle']:.0f} s after the start; pg_stat_statements and /proc"
    better: Better = "lower"
    return Outcome(
        samples=[
            Sample(
                name="idle: statements",
                value=(last.calls - first.calls - ours) / seconds,
                unit="1/s",
                better=better,
                how=how,
            ),
            Sample(name="idle: daemon CPU", value=share * 100, unit="% of a core", better=better, how=how),
            Sample(
                name="idle: server CPU",
                value=(last.cpu - first.cpu) / seconds * 100,
                unit="% of a core",
                better=better,
                how=how,
            ),
            Sample(name="idle: memory", value=memory, unit="MB", better=better, how=how),
        ]
    )
