"""SAQ with its PostgreSQL queue: a hundred jobs at once over a pool of connections."""

from __future__ import annotations

import asyncio
import os
import signal

import uvloop
from saq import Job, Worker  # type: ignore[import-not-found]
from saq.queue.postgres import PostgresQueue  # type: ignore[import-not-found]

from bench.peers.protocol import Driver, Teller, dsn, run

CONCURRENCY = 100


async def main() -> None:
    teller = Teller()
    queue = PostgresQueue.from_url(dsn(), min_size=4, max_size=20)

    async def noop(_context: object) -> None:
        teller.started()

    async def setup() -> None:
        await queue.connect()

    async def fill(jobs: int) -> None:
        await queue.connect()
        gate = asyncio.Semaphore(16)

        async def one() -> None:
            async with gate:
                await queue.enqueue(Job("noop", timeout=0))

        async with asyncio.TaskGroup() as group:
            for _ in range(jobs):
                group.create_task(one())

    async def enqueue_one() -> None:
        await queue.connect()
        await queue.enqueue(Job("noop", timeout=0))

    async def work() -> None:
        await queue.connect()
        worker = Worker(queue, [("noop", noop)], concurrency=CONCURRENCY)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, os._exit, 0)
        await worker.start()

    await run(Driver(setup=setup, fill=fill, work=work, enqueue_one=enqueue_one))


uvloop.run(main())
