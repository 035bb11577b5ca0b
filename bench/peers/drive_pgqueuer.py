"""PgQueuer: asyncpg, uvloop, batches of 500 (it completes in batches of the same size), no limit on concurrency."""

from __future__ import annotations

import asyncpg
import uvloop
from pgqueuer import AsyncpgDriver, PgQueuer, Queries  # type: ignore[import-not-found]

from bench.peers.protocol import Driver, Teller, dsn, run

BATCH = 500
NAME = "noop"


async def main() -> None:
    connection = await asyncpg.connect(dsn())
    queries = Queries(AsyncpgDriver(connection))

    async def setup() -> None:
        await queries.install()

    async def fill(jobs: int) -> None:
        for begin in range(0, jobs, 10_000):
            number = min(10_000, jobs - begin)
            await queries.enqueue([NAME] * number, [None] * number, [0] * number)

    async def enqueue_one() -> None:
        await queries.enqueue(NAME, None)

    async def work() -> None:
        worker, teller = PgQueuer(AsyncpgDriver(connection)), Teller()

        async def noop(_job: object) -> None:
            teller.started()

        worker.entrypoint(NAME, accepts_context=False)(noop)
        await worker.run(batch_size=BATCH)

    await run(Driver(setup=setup, fill=fill, work=work, enqueue_one=enqueue_one))


uvloop.run(main())
