"""The bare program beside the daemon: the same SQL, the same load, so that what a daemon adds is a ratio of one run."""

from __future__ import annotations

import json
import subprocess
import sys

import anyio

from bench.daemons import ROOT
from bench.figures import Better, Outcome, Sample
from bench.filling import Load, fill, settle
from bench.server import mark, wal_between
from bench.sizes import Sizes
from bench.stage import Stage


async def bare(here: Stage, sizes: Sizes) -> Outcome:
    """Fill, and let `bench.bare` claim and finish all of it."""
    jobs = sizes.whole("jobs")
    async with here.connected() as connection:
        await fill(connection, Load(jobs=jobs))
        await settle(connection)
        first = await mark(here, connection)
        command = [sys.executable, "-m", "bench.bare", here.dsn]
        run = await anyio.run_process(command, cwd=ROOT, stderr=subprocess.STDOUT)
        last = await mark(here, connection)
        wal = await wal_between(connection, first, last)
    took = json.loads(run.stdout)
    how = f"{jobs:,} jobs, claim_jobs.sql and finish_jobs.sql by hand on two asyncpg connections, no handlers"

    def sample(what: str, value: float, unit: str, better: Better = "lower") -> Sample:
        return Sample(name=f"bare: {what}", value=value, unit=unit, better=better, how=how)

    return Outcome(
        samples=[
            sample("rate", took["jobs"] / took["seconds"], "jobs/s", "higher"),
            sample("program CPU a job", took["cpu"] / jobs * 1e6, "µs"),
            sample("server CPU a job", (last.cpu - first.cpu) / jobs * 1e6, "µs"),
            sample("WAL a job", wal.records / jobs, "B"),
        ]
    )
