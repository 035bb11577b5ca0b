"""The contract, row "cancel": a waiting job at once, a running one by the beat, and honoured by every way out."""

from __future__ import annotations

import asyncio
import random
import threading

import anyio
import pytest

from support.databases import ClonedDatabase, Connection
from support.eventually import eventually, looked
from support.factories import enqueue, status_of
from support.running import brisk, running
from support.working import job_row, table_of
from wakeful import JobContext, Registry, Snooze, testing
from wakeful.errors import LeaseLost
from wakeful.telemetry.events import JOB_CANCEL_REQUESTED, JOB_CANCELLED, JOB_FINISHED, JOB_STARTED


async def cancel(sql: Connection, job_id: object) -> str:
    status: str = await sql.fetchval("select wakeful.cancel($1, 'not needed any more')", job_id)
    return status


async def test_a_waiting_job_is_cancelled_at_once_and_never_runs(db: ClonedDatabase, sql: Connection) -> None:
    job_id = (await enqueue(sql)).job_id
    assert await cancel(sql, job_id) == "CANCELLED"
    async with testing.instance(db) as w:
        assert await w.claim() is None
    assert await status_of(sql, job_id) == "CANCELLED"


@pytest.mark.case("F34", "F38")
async def test_a_running_job_is_told_by_the_next_beat_and_its_handler_knows_why(
    db: ClonedDatabase, sql: Connection
) -> None:
    registry, ended = Registry(), []

    @registry.job("COLLECT")
    async def collect(job: JobContext) -> None:
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            ended.append(job.cancelled)
            raise

    async with running(db, registry) as one:
        job_id = (await enqueue(sql)).job_id
        await one.recorder.seen(JOB_STARTED, job_id=str(job_id))
        assert await cancel(sql, job_id) == "RUNNING"
        await one.recorder.seen(JOB_CANCELLED, job_id=str(job_id))

        row = await job_row(sql, job_id)
        assert (row["status"], row["errors"], ended) == ("CANCELLED", [], [True])
        assert row["last_error"] == "not needed any more"
        assert len(one.recorder.of(JOB_CANCEL_REQUESTED)) == 1
        assert await sql.fetchval("select count(*) from wakeful.alert_outbox") == 0
        assert one.parts.holdings.snapshot() == []


async def test_a_plain_function_sees_that_it_is_cancelled(db: ClonedDatabase, sql: Connection) -> None:
    registry, seen = Registry(), threading.Event()

    @registry.job("COLLECT")
    def collect(job: JobContext) -> None:
        while not job.cancelled:
            seen.wait(0.005)
        raise RuntimeError("stopped half way")

    async with running(db, registry) as one:
        job_id = (await enqueue(sql)).job_id
        await one.recorder.seen(JOB_STARTED, job_id=str(job_id))
        await cancel(sql, job_id)
        await one.recorder.seen(JOB_CANCELLED, job_id=str(job_id))
    assert await status_of(sql, job_id) == "CANCELLED"


async def test_a_job_that_returns_in_spite_of_it_is_done(db: ClonedDatabase, sql: Connection) -> None:
    registry = Registry()

    @registry.job("COLLECT")
    async def collect(job: JobContext) -> str:
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            return "was as good as done"
        return "never"

    async with running(db, registry) as one:
        job_id = (await enqueue(sql)).job_id
        await one.recorder.seen(JOB_STARTED, job_id=str(job_id))
        await cancel(sql, job_id)
        await one.recorder.seen(JOB_FINISHED, job_id=str(job_id))
    assert (await job_row(sql, job_id))["result"] == "was as good as done"


@pytest.mark.parametrize("exit_by", ["fail", "snooze", "fail later", "reap"])
@pytest.mark.case("F38")
async def test_a_cancellation_that_has_not_arrived_is_honoured_by_whatever_ends_the_attempt(
    db: ClonedDatabase, sql: Connection, exit_by: str
) -> None:
    reached, go_on = anyio.Event(), anyio.Event()

    async def handler(job: JobContext) -> None:
        reached.set()
        await go_on.wait()
        raise Snooze(3600) if exit_by == "snooze" else ValueError("no")

    job_id = (await enqueue(sql)).job_id
    backoff = 60 if exit_by == "fail later" else 0
    async with (
        testing.instance(db, registry=handler, backoff=lambda attempt: backoff) as w,
        anyio.create_task_group() as group,
    ):
        group.start_soon(w.run_one)
        await reached.wait()
        assert await cancel(sql, job_id) == "RUNNING"
        if exit_by == "reap":
            await testing.expire_lease(db, w)
            assert [one.status for one in await testing.reap(db)] == ["CANCELLED"]
        go_on.set()

    row = await job_row(sql, job_id)
    assert row["status"] == "CANCELLED"
    assert await table_of(sql, job_id) == ["finished"]
    assert await sql.fetchval("select count(*) from wakeful.alert_outbox") == 0


@pytest.mark.case("F38")
async def test_a_job_cancelled_between_claim_and_start_is_told_at_the_first_beat_after_it(
    db: ClonedDatabase, sql: Connection
) -> None:
    registry, started = Registry(), []

    @registry.job("COLLECT")
    async def collect(job: JobContext) -> None:
        started.append(job.job_id)
        await anyio.sleep_forever()

    job_id = (await enqueue(sql)).job_id
    async with testing.instance(db, registry=registry) as w:
        holding = await w._claim()
        assert holding is not None
        await cancel(sql, job_id)
        assert await w.beat()  # nothing runs that could be told
        landed = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(w._execute, holding, landed)
            await eventually(looked(lambda: len(started)))
            assert await w.beat()
            await landed.wait()
    assert await status_of(sql, job_id) == "CANCELLED"


@pytest.mark.case("F38")
async def test_any_number_of_cancellations_at_any_moment_leave_each_job_done_or_cancelled_for_good(
    db: ClonedDatabase, sql: Connection
) -> None:
    registry, starts = Registry(), dict[str, int]()
    chance = random.Random(7)

    @registry.job("COLLECT", backoff=lambda attempt: 0)
    async def collect(job: JobContext) -> None:
        starts[str(job.job_id)] = starts.get(str(job.job_id), 0) + 1
        await anyio.sleep(chance.random() * 0.02)
        if chance.random() < 0.3:
            raise ValueError("try again")

    async with running(db, registry, settings=brisk(concurrency=8)):
        ids = [(await enqueue(sql, max_attempts=1000)).job_id for _ in range(150)]
        canceller = await db.connect()
        for job_id in chance.sample(ids, 100):
            await anyio.sleep(chance.random() * 0.004)
            assert await cancel(canceller, job_id) in ("CANCELLED", "RUNNING", "DONE")

        async def open_jobs() -> int:
            count: int = await sql.fetchval(
                "select count(*) from wakeful.jobs where status not in ('DONE', 'CANCELLED')"
            )
            return count

        await eventually(open_jobs, until=lambda count: count == 0, timeout=30)
        ended = {row["job_id"]: row for row in await sql.fetch("select * from wakeful.jobs")}
        assert len(ended) == 150
        assert all(row["run_no"] == starts.get(str(job_id), 0) for job_id, row in ended.items())
        assert {await cancel(canceller, job_id) for job_id in ids} <= {"DONE", "CANCELLED"}


async def test_a_handler_learns_at_its_next_beat_that_its_job_is_another_instances(
    db: ClonedDatabase, sql: Connection
) -> None:
    running_now, reasons = anyio.Event(), []

    async def handler(job: JobContext) -> None:
        running_now.set()
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            try:
                await job.step("clean up").__aenter__()
            except LeaseLost as lost:
                reasons.append(lost)
            raise

    job_id = (await enqueue(sql)).job_id
    async with testing.instance(db, registry=handler) as w1, testing.instance(db) as w2:
        async with anyio.create_task_group() as group:
            group.start_soon(w1.run_one)
            await running_now.wait()
            await testing.expire_lease(db, w1)
            await testing.reap(db)
            taken = await w2.claim()
            assert taken is not None
            assert not await w1.beat()
        assert len(reasons) == 1
        assert taken is not None
        assert await w2.finish(taken)
    assert (await job_row(sql, job_id))["lost"] == 1
