"""The server goes and comes back under a working instance: no result is lost, no job is charged, none runs twice."""

from __future__ import annotations

import anyio
import asyncpg
import pytest

from support.cluster import TEMPLATE, Cluster, make_template
from support.databases import Connection
from support.eventually import eventually, looked
from support.factories import enqueue
from support.running import brisk, running
from support.working import claimer_on, job_row
from wakeful import JobContext, Registry
from wakeful.embedded import StopMode
from wakeful.telemetry.events import (
    DATABASE_LOST,
    DATABASE_RESTORED,
    INSTANCE_DEPOSED,
    JOB_FINISHED,
    JOB_LOST,
    JOB_STARTED,
    SERVER_CHANGED,
)


@pytest.fixture
async def dsn(own_cluster: Cluster) -> str:
    """A fresh install on a server of its own."""
    await make_template(own_cluster)
    return own_cluster.dsn(TEMPLATE)


async def connected(dsn: str) -> Connection:
    return await asyncpg.connect(dsn)


@pytest.mark.case("I1")
@pytest.mark.parametrize("mode", [StopMode.FAST, StopMode.IMMEDIATE])
async def test_results_made_while_the_server_is_away_are_written_when_it_is_back(
    own_cluster: Cluster, dsn: str, mode: StopMode
) -> None:
    registry, go_on = Registry(), anyio.Event()

    @registry.job("COLLECT")
    async def collect(job: JobContext) -> str:
        await go_on.wait()
        return "kept"

    async with running(dsn, registry, settings=brisk(concurrency=20)) as one:
        sql = await connected(dsn)
        ids = [(await enqueue(sql)).job_id for _ in range(20)]
        for job_id in ids:
            await one.recorder.seen(JOB_STARTED, job_id=str(job_id))
        await sql.close()
        await anyio.to_thread.run_sync(own_cluster.postmaster.stop, mode)
        go_on.set()
        await one.recorder.seen(DATABASE_LOST)
        await eventually(looked(lambda: one.parts.finisher.unsettled), until=lambda count: count == 20)

        await anyio.to_thread.run_sync(own_cluster.postmaster.start)
        for job_id in ids:
            await one.recorder.seen(JOB_FINISHED, job_id=str(job_id), within=30)
        sql = await connected(dsn)
        rows = [await job_row(sql, job_id) for job_id in ids]
        await sql.close()

    assert {(row["status"], row["result"], row["attempts"], row["run_no"]) for row in rows} == {
        ("DONE", "kept", 1, 1)
    }
    assert len(one.recorder.of(DATABASE_LOST)) == len(one.recorder.of(DATABASE_RESTORED)) == 1
    assert one.recorder.of(JOB_LOST) == one.recorder.of(INSTANCE_DEPOSED) == []
    assert one.recorder.of(SERVER_CHANGED)


async def test_a_claim_that_was_answered_survives_a_crash_of_the_server(
    own_cluster: Cluster, dsn: str
) -> None:
    """Committed synchronously, unless the type runs for less than a second: else two instances would run it."""
    sql = await connected(dsn)
    await sql.execute("alter system set wal_writer_delay = '10s'")
    await sql.execute("select pg_reload_conf()")
    for _ in range(2):
        await enqueue(sql)
    await sql.close()
    async with claimer_on(dsn) as claimer:
        (lane,) = await claimer.lanes()
        (safe,) = await claimer.claim(limit=1, lane=lane.lane_id)
        await anyio.to_thread.run_sync(own_cluster.postmaster.restart, StopMode.IMMEDIATE)
        sql = await connected(dsn)
        owner = await sql.fetchval("select claim from wakeful.ready where job_id = $1", safe.job.job_id)
        assert owner == safe.job.claim
        await sql.close()


@pytest.mark.case("F80")
async def test_jobs_flow_through_any_number_of_restarts_and_none_is_charged_or_lost(
    own_cluster: Cluster, dsn: str
) -> None:
    registry, starts = Registry(), dict[str, int]()

    @registry.job("COLLECT")
    async def collect(job: JobContext) -> None:
        starts[str(job.job_id)] = starts.get(str(job.job_id), 0) + 1
        await anyio.sleep(0.002)

    async with running(dsn, registry, settings=brisk(concurrency=8)):
        for _ in range(3):
            sql = await connected(dsn)
            for _ in range(100):
                await enqueue(sql)
            await sql.close()
            await anyio.to_thread.run_sync(own_cluster.postmaster.restart)
        sql = await connected(dsn)
        open_jobs = "select count(*) from wakeful.jobs where status <> 'DONE'"
        await eventually(lambda: sql.fetchval(open_jobs), until=lambda count: count == 0, timeout=60)
        assert await sql.fetchval("select count(*) from wakeful.finished") == 300
        assert await sql.fetchval("select max(attempts) from wakeful.finished") == 1
        assert await sql.fetchval("select max(lost) + max(handed_back) from wakeful.jobs") == 0
        await sql.close()
    assert set(starts.values()) == {1}
    assert len(starts) == 300
