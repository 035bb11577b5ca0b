"""procrastinate: a pool of connections and a hundred jobs at once; it claims and finishes each by itself."""

from __future__ import annotations

import uvloop
from procrastinate import App, PsycopgConnector  # type: ignore[import-not-found]

from bench.peers.protocol import Driver, Teller, dsn, run

CONCURRENCY = 100
CONNECTIONS = 20


async def main() -> None:
    teller = Teller()
    app = App(connector=PsycopgConnector(conninfo=dsn(), min_size=4, max_size=CONNECTIONS))

    async def noop() -> None:
        teller.started()

    job_type = app.task(name="noop")(noop)

    async def setup() -> None:
        await app.schema_manager.apply_schema_async()

    async def fill(jobs: int) -> None:
        for begin in range(0, jobs, 10_000):
            await job_type.batch_defer_async(*[{} for _ in range(min(10_000, jobs - begin))])

    async def enqueue_one() -> None:
        await job_type.defer_async()

    async def work() -> None:
        await app.run_worker_async(concurrency=CONCURRENCY, delete_jobs="never")

    async with app.open_async():
        await run(Driver(setup=setup, fill=fill, work=work, enqueue_one=enqueue_one))


uvloop.run(main())
