"""The contract, row "progress": declared steps from the start, each change committed, fenced, anew with each claim."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import anyio
import pytest

from support.databases import ClonedDatabase, Connection
from support.eventually import eventually, looked
from support.factories import enqueue, status_of
from support.proxy import Mode, Proxy
from support.working import job_row, telling
from wakeful import JobContext, LeaseLost, Registry, testing
from wakeful.core.settings import DatabaseSettings
from wakeful.errors import JobDeadlineExceeded, JobInterrupted
from wakeful.store.database import open_database
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import JOB_LOST, PROGRESS_REFUSED


async def steps(sql: Connection, job_id: UUID) -> dict[str, dict[str, Any]]:
    document = (await job_row(sql, job_id))["progress"]
    return {step["name"]: step for step in document["steps"]} if document else {}


async def statuses(sql: Connection, job_id: UUID) -> dict[str, str]:
    return {name: step["status"] for name, step in (await steps(sql, job_id)).items()}


async def test_every_declared_step_is_there_before_the_handler_starts_and_each_change_is_committed(
    db: ClonedDatabase, sql: Connection
) -> None:
    registry, seen = Registry(), []

    @registry.job("COLLECT", steps=("fetch", "parse"))
    async def collect(job: JobContext) -> None:
        seen.append(await statuses(sql, job.job_id))
        async with job.step("fetch"):
            seen.append(await statuses(sql, job.job_id))
        seen.append(await statuses(sql, job.job_id))

    job_id = (await enqueue(sql)).job_id
    async with testing.instance(db, registry=registry) as w:
        await w.run_one()

    assert seen == [
        {"fetch": "pending", "parse": "pending"},
        {"fetch": "running", "parse": "pending"},
        {"fetch": "done", "parse": "pending"},
    ]
    fetch = (await steps(sql, job_id))["fetch"]
    assert set(fetch) == {*("name", "status", "started_at", "finished_at", "percent", "message", "error")}
    assert fetch["started_at"] <= fetch["finished_at"]


async def test_a_plain_function_reports_its_steps_just_so(db: ClonedDatabase, sql: Connection) -> None:
    registry = Registry()

    @registry.job("COLLECT", steps=("fetch",))
    def collect(job: JobContext) -> None:
        with job.step("fetch") as step:
            step.progress(40, "page 4 of 10")
        with job.step("publish"):
            raise ValueError("no room")

    job_id = (await enqueue(sql)).job_id
    async with testing.instance(db, registry=registry) as w:
        await w.run_one()

    found = await steps(sql, job_id)
    assert (found["fetch"]["status"], found["fetch"]["message"]) == ("done", "page 4 of 10")
    assert (found["publish"]["status"], found["publish"]["error"]) == ("failed", "ValueError: no room")


@pytest.mark.case("F33")
async def test_each_claim_starts_anew_and_a_former_handler_is_refused(
    db: ClonedDatabase, sql: Connection
) -> None:
    registry, kept, refused = Registry(), list[JobContext](), []

    @registry.job("COLLECT", steps=("fetch",), backoff=lambda attempt: 0)
    async def collect(job: JobContext) -> None:
        if not kept:
            kept.append(job)
            async with job.step("fetch"):
                raise ValueError("no")
        for _ in range(100):
            try:
                async with kept[0].step("fetch"):
                    pass
            except LeaseLost as lost:
                refused.append(lost)
        assert await statuses(sql, job.job_id) == {"fetch": "pending"}
        async with job.step("fetch"):
            pass

    job_id = (await enqueue(sql)).job_id
    telemetry, recorder = telling()
    async with testing.instance(db, registry=registry, telemetry=telemetry) as w:
        assert await w.run_one()
        assert await statuses(sql, job_id) == {"fetch": "failed"}
        assert await w.run_one()

    assert len(refused) == 100
    assert recorder.of(PROGRESS_REFUSED, job_id=str(job_id), run_no=1)
    assert await statuses(sql, job_id) == {"fetch": "done"}
    assert (await job_row(sql, job_id))["progress"]["attempt"] == 2


async def test_a_handler_with_steps_is_not_called_for_a_job_that_was_lost_meanwhile(
    db: ClonedDatabase, sql: Connection
) -> None:
    registry, called = Registry(), False

    @registry.job("COLLECT", steps=("fetch",))
    def collect(job: JobContext) -> None:
        nonlocal called
        called = True

    job_id = (await enqueue(sql)).job_id
    from_telemetry = await run_lost(db, registry)
    assert not called
    assert from_telemetry == 1
    assert await status_of(sql, job_id) == "PENDING"


async def run_lost(db: ClonedDatabase, registry: Registry) -> int:
    telemetry, recorder = telling()
    async with testing.instance(db, registry=registry, telemetry=telemetry) as w:
        holding = await w._claim()
        assert holding is not None
        await testing.expire_lease(db, w)
        await testing.reap(db)
        landed = anyio.Event()
        await w._execute(holding, landed)
        await landed.wait()
    return len(recorder.of(JOB_LOST))


@pytest.mark.parametrize("runs", ["async", "thread"])
async def test_a_handler_with_steps_that_is_stopped_before_it_starts_is_not_called(
    db: ClonedDatabase, sql: Connection, runs: str
) -> None:
    """The steps can't be stored while the table is locked; meanwhile the process stops."""
    registry, called = Registry(), []

    async def on_loop(job: JobContext) -> None:
        called.append("loop")

    def in_thread(job: JobContext) -> None:
        called.append("thread")

    registry.job("COLLECT", steps=("fetch",))(on_loop if runs == "async" else in_thread)
    job_id = (await enqueue(sql)).job_id
    locker = await db.connect()
    async with testing.instance(db, registry=registry) as w:
        attempts = w._parts.attempts
        async with anyio.create_task_group() as group, locker.transaction():
            await locker.execute("lock table wakeful.progress in access exclusive mode")
            group.start_soon(w.run_one)
            await waits_for_lock(sql)
            (attempt,) = attempts.running.values()
            attempts.cancel(attempt.holding, JobInterrupted("the process is stopping"))

    row = await job_row(sql, job_id)
    assert called == []
    assert (row["status"], row["attempts"], row["handed_back"]) == ("PENDING", 0, 1)


async def test_a_deadline_that_passes_while_the_database_is_away_ends_the_attempt_and_hurts_nobody(
    db: ClonedDatabase, sql: Connection, proxy: Proxy
) -> None:
    """The steps of the next attempt can't be stored, and it is out of time before they can."""
    registry, called = Registry(), []

    @registry.job("COLLECT", steps=("fetch",), backoff=lambda attempt: 600)
    async def collect(job: JobContext) -> None:
        called.append(job.attempt)

    job_id = (await enqueue(sql)).job_id
    settings = DatabaseSettings(dsn=proxy.dsn(db.name), connect_timeout=1.0)
    async with (
        open_database(settings, Telemetry()) as database,
        testing.instance(database, registry=registry) as w,
    ):
        holding = await w._claim()
        assert holding is not None
        proxy.set(Mode.REFUSE)
        proxy.reset()
        landed = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(w._execute, holding, landed)
            attempts = w._parts.attempts
            await eventually(looked(lambda: len(attempts.running)))
            (attempt,) = attempts.running.values()
            attempts.cancel(attempt.holding, JobDeadlineExceeded("ran for more than 1 s"))
            await eventually(looked(lambda: len(attempts.running)), until=lambda left: left == 0)
            proxy.set(Mode.PASS)
            await landed.wait()

    row = await job_row(sql, job_id)
    assert called == []
    assert (row["status"], row["attempts"]) == ("PENDING", 1)
    assert row["last_error"] == "JobDeadlineExceeded: ran for more than 1 s"


async def waits_for_lock(sql: Connection) -> None:
    await eventually(
        lambda: sql.fetchval(
            """select exists (select from pg_stat_activity
                              where wait_event_type = 'Lock' and query like '%wakeful.progress%'
                                and pid <> pg_backend_pid())"""
        )
    )


async def test_the_document_is_kept_after_the_end_with_the_steps_that_never_ran(
    db: ClonedDatabase, sql: Connection
) -> None:
    registry = Registry()

    @registry.job("COLLECT", steps=("fetch", "parse"), max_attempts=1)
    async def collect(job: JobContext) -> None:
        async with job.step("fetch"):
            await asyncio.sleep(0)
        raise ValueError("no")

    job_id = (await enqueue(sql, max_attempts=1)).job_id
    async with testing.instance(db, registry=registry) as w:
        await w.run_one()

    assert await status_of(sql, job_id) == "DEAD"
    assert await statuses(sql, job_id) == {"fetch": "done", "parse": "pending"}
