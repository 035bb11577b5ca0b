"""Two daemons and many producers behind a pooler in transaction mode, which is restarted under them."""

from __future__ import annotations

import asyncpg
import pytest
from anyio import create_task_group

from support.canaries import LONG, QUICK, all_done, charged, statuses
from support.databases import ClonedDatabase, Connection
from support.pooler import PROGRAM, WHERE_FROM, running_pooler
from support.process import running_daemon
from support.proxy import Proxy

pytestmark = pytest.mark.skipif(PROGRAM is None, reason=WHERE_FROM)

PRODUCERS = 30
JOBS_EACH = 200 if LONG else 8


@pytest.mark.timeout(600 if LONG else 120)
@pytest.mark.case("F08")
async def test_two_daemons_and_thirty_producers_share_three_connections_of_a_pooler(
    db: ClonedDatabase, sql: Connection, proxy: Proxy
) -> None:
    with running_pooler(proxy) as port:
        dsn = f"postgresql://postgres@127.0.0.1:{port}/{db.name}?sslmode=disable"
        with running_daemon(dsn, settings=QUICK) as one, running_daemon(dsn, settings=QUICK) as two:
            for daemon in (one, two):
                daemon.wait_for("daemon.started")
                daemon.wait_for("listener.degraded", timeout=40)
            async with create_task_group() as group:
                for number in range(PRODUCERS):
                    group.start_soon(produce, dsn, number)
            await all_done(sql, PRODUCERS * JOBS_EACH)
            assert await charged(sql) == []
            # What it serves is cut and comes back: new connections on either side, in the middle of everything.
            await sql.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )
            async with create_task_group() as group:
                for number in range(PRODUCERS):
                    group.start_soon(produce, dsn, number)
            await all_done(sql, 2 * PRODUCERS * JOBS_EACH)
            assert await sql.fetchval("select max(attempts) from wakeful.jobs") == 1
            assert set(await statuses(sql)) == {"DONE"}
            for daemon in (one, two):
                assert not any("prepared statement" in line for line in daemon.raw)


async def produce(dsn: str, number: int) -> None:
    """Enqueue, with a statement that no pooler has to remember, each job in a transaction of its own."""
    connection = await asyncpg.connect(dsn, statement_cache_size=0, timeout=30)
    try:
        for _ in range(JOBS_EACH):
            async with connection.transaction():
                await connection.execute(f"select wakeful.enqueue('probe.ok', '{{\"number\": {number}}}')")
    finally:
        connection.terminate()
