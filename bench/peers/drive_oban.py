"""Oban for Python, which needs 3.12: a hundred jobs of one queue at once."""

from __future__ import annotations

import asyncio

import uvloop
from oban import Oban, worker  # type: ignore[import-not-found]
from oban.schema import install  # type: ignore[import-not-found]

from bench.peers.protocol import Driver, Teller, dsn, run

LIMIT = 100
teller = Teller()


class Noop:
    async def process(self, _job: object) -> None:
        teller.started()


async def main() -> None:
    noop = worker(queue="default")(Noop)
    pool = await Oban.create_pool(dsn=dsn(), max_size=20)
    producer = Oban(pool=pool)

    async def setup() -> None:
        await install(pool)

    async def fill(jobs: int) -> None:
        for begin in range(0, jobs, 5_000):
            await producer.enqueue_many([noop.new({}) for _ in range(min(5_000, jobs - begin))])

    async def enqueue_one() -> None:
        await producer.enqueue(noop.new({}))

    async def work() -> None:
        async with Oban(pool=pool, queues={"default": LIMIT}):
            await asyncio.Event().wait()

    await run(Driver(setup=setup, fill=fill, work=work, enqueue_one=enqueue_one))


uvloop.run(main())
