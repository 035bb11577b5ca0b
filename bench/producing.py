"""Producers: pgbench where the client must not be the limit, and one that keeps a steady rate while others measure."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio

from bench.stage import Connection, Stage

TICK_SECONDS = 0.02
TPS = re.compile(rb"tps = ([0-9.]+)")
MANY = "select count(*) from wakeful.enqueue_many($1::text::jsonb)"


async def transactions_a_second(here: Stage, script: str, *, connections: int, seconds: float) -> float:
    """Run one statement over and over from so many connections, each in a transaction of its own."""
    path = here.folder / "script.sql"
    path.write_text(script)
    command = [
        str(here.cluster.binaries / "pgbench"),
        *("--no-vacuum", "--protocol=prepared", f"--file={path}", f"--time={max(1, round(seconds))}"),
        *(f"--client={connections}", f"--jobs={min(2, connections)}", here.dsn),
    ]
    run = await anyio.run_process(command, stderr=subprocess.STDOUT)
    found = TPS.search(run.stdout)
    if found is None:
        raise RuntimeError(f"pgbench gave no rate: {run.stdout.decode()}")
    return float(found[1])


def batch_of(job_type: str, jobs: int) -> str:
    """The argument of enqueue_many for so many small jobs."""
    return json.dumps([{"job_type": job_type, "payload": {"n": n}} for n in range(jobs)])


@dataclass(slots=True, kw_only=True)
class SteadyProducer:
    """Enqueues `rate` jobs a second in fifty transactions a second; says how many it has."""

    connection: Connection
    rate: float
    job_type: str = "bench.noop"
    enqueued: int = 0

    async def run(self) -> None:
        """Produce until cancelled, catching up where the server was slow."""
        batch = max(1, round(self.rate * TICK_SECONDS))
        document, began = batch_of(self.job_type, batch), time.monotonic()
        while True:
            await self.connection.fetch(MANY, document)
            self.enqueued += batch
            await anyio.sleep(max(0.0, began + self.enqueued / self.rate - time.monotonic()))


@asynccontextmanager
async def steady(here: Stage, *, rate: float) -> AsyncIterator[SteadyProducer]:
    """A steady producer beside the block, on a connection of its own."""
    async with here.connected() as connection, anyio.create_task_group() as group:
        producer = SteadyProducer(connection=connection, rate=rate)
        group.start_soon(producer.run)
        yield producer
        group.cancel_scope.cancel()
