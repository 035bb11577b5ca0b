"""Chancy: its asyncio executor, a hundred jobs at once, polling again as soon as jobs end."""

from __future__ import annotations

import logging

import uvloop
from chancy import Chancy, Job, Queue, Worker  # type: ignore[import-not-found]

from bench.peers.protocol import Driver, Teller, dsn, run

CONCURRENCY = 100
teller = Teller()


async def noop() -> None:
    teller.started()


async def main() -> None:
    queue = Queue(
        "default",
        concurrency=CONCURRENCY,
        executor=Chancy.Executor.Async,
        polling_interval=1,
        eager_polling=True,
    )
    job = Job(func="bench.peers.drive_chancy.noop", queue="default")

    quiet = logging.getLogger("chancy")
    quiet.setLevel(logging.ERROR)

    async with Chancy(dsn(), log=quiet) as chancy:

        async def setup() -> None:
            await chancy.migrate()
            await chancy.declare(queue, upsert=True)

        async def fill(jobs: int) -> None:
            for begin in range(0, jobs, 10_000):
                async for _ in chancy.push_many([job] * min(10_000, jobs - begin)):
                    pass

        async def enqueue_one() -> None:
            await chancy.push(job)

        async def work() -> None:
            async with Worker(chancy) as worker:
                await worker.wait_for_shutdown()

        await run(Driver(setup=setup, fill=fill, work=work, enqueue_one=enqueue_one))


if __name__ == "__main__":
    uvloop.run(main())
