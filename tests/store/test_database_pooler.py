"""Behind a pooler in transaction mode: found out by itself, and no setting or statement is left to somebody else."""

from __future__ import annotations

from collections.abc import Iterator

import asyncpg
import pytest

from support.databases import ClonedDatabase, Connection
from support.eventually import eventually
from support.factories import enqueue
from support.pooler import PROGRAM, WHERE_FROM, running_pooler
from support.proxy import Proxy
from support.running import brisk, running
from support.working import telling
from wakeful import JobContext, Registry
from wakeful.core.settings import DatabaseSettings
from wakeful.store.database import open_database
from wakeful.telemetry.events import DATABASE_LOST, STATEMENT_RETRIED

pytestmark = pytest.mark.skipif(PROGRAM is None, reason=WHERE_FROM)

# Some poolers refuse a start-up parameter that they do not know, others are told to let it pass and lose it.
LETS_PASS = (
    "ignore_startup_parameters = "
    "default_transaction_isolation, statement_timeout, idle_in_transaction_session_timeout, jit"
)


@pytest.fixture(params=["", LETS_PASS], ids=["refuses", "lets pass"])
def dsn(request: pytest.FixtureRequest, db: ClonedDatabase, proxy: Proxy) -> Iterator[str]:
    """The way to the test's database through the pooler."""
    with running_pooler(proxy, more=request.param) as port:
        yield f"postgresql://postgres@127.0.0.1:{port}/{db.name}?sslmode=disable"


async def test_it_is_found_out_and_statements_go_through(dsn: str, sql: Connection) -> None:
    await enqueue(sql)
    telemetry, recorder = telling()
    async with open_database(DatabaseSettings(dsn=dsn), telemetry) as database:
        for _ in range(20):
            assert len(await database.fetch("find_lanes", None, None, [], [], True)) == 1
        assert database.pooled
        assert recorder.of(DATABASE_LOST) == []


@pytest.mark.case("F08")
async def test_jobs_run_through_it_with_progress_follow_ups_and_alerts(
    dsn: str, db: ClonedDatabase, sql: Connection
) -> None:
    await sql.execute(f"alter database {db.name} set default_transaction_isolation = 'serializable'")
    registry = Registry()

    @registry.job("COLLECT", steps=("fetch",), backoff=lambda attempt: 0)
    async def collect(job: JobContext) -> str:
        async with job.step("fetch") as step:
            await step.progress(50, "half way")
        if job.attempt == 1:
            raise ValueError("once more")
        job.enqueue("BUILD", dedupe_key=str(job.job_id))
        job.alert("told", title="a title", subject=str(job.job_id))
        return "done"

    @registry.job("BUILD")
    def build(job: JobContext) -> None: ...

    async with running(dsn, registry, settings=brisk(concurrency=8)) as one:
        for _ in range(40):
            await enqueue(sql)
        ended = "select count(*) from wakeful.finished"
        await eventually(lambda: sql.fetchval(ended), until=lambda count: count == 80, timeout=60)
        assert one.parts.hot.pooled
        assert one.recorder.of(DATABASE_LOST) == one.recorder.of(STATEMENT_RETRIED) == []
    assert await sql.fetchval("select count(*) from wakeful.alert_outbox") == 40
    assert await sql.fetchval("select count(*) from wakeful.progress") == 40

    # Nothing that was set for one transaction is left on a server connection for the next client.
    for _ in range(6):
        client = await asyncpg.connect(dsn, statement_cache_size=0)
        try:
            for name, expected in {"synchronous_commit": "on", "lock_timeout": "0"}.items():
                assert await client.fetchval(f"select current_setting('{name}')") == expected
        finally:
            await client.close()
