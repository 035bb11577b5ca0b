"""awa: its Rust engine with Python handlers, a hundred workers on one queue, COPY for what is filled in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass

from awa import AsyncClient  # type: ignore[import-not-found]

from bench.peers.protocol import Driver, Teller, dsn, run

WORKERS = 100
QUEUE = "default"


@dataclass
class Noop:
    n: int


async def main() -> None:
    teller = Teller()
    address = dsn().replace("@/", "@localhost/")  # its driver wants a host beside the socket's folder
    client = AsyncClient(address)

    async def setup() -> None:
        await client.migrate()
        await work_until(asyncio.sleep(3))  # its storage is chosen by the first worker that starts

    async def fill(jobs: int) -> None:
        for begin in range(0, jobs, 5_000):
            batch = [Noop(n) for n in range(min(5_000, jobs - begin))]
            await client.enqueue_many_copy(batch, queue=QUEUE)

    async def enqueue_one() -> None:
        await client.insert(Noop(0), queue=QUEUE)

    async def work_until(end: Awaitable[object]) -> None:
        async def noop(_job: object) -> None:
            teller.started()

        client.task(Noop, queue=QUEUE)(noop)
        await client.start([(QUEUE, WORKERS)])
        await end
        await client.shutdown()

    async def work() -> None:
        await work_until(asyncio.Event().wait())

    await run(Driver(setup=setup, fill=fill, work=work, enqueue_one=enqueue_one))


asyncio.run(main())
