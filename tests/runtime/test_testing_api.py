"""`wakeful.testing`, as the documentation promises it to our users' tests."""

from __future__ import annotations

from functools import partial
from uuid import UUID

import anyio
import asyncpg
import pytest

import wakeful
from support.databases import ClonedDatabase, Connection
from support.eventually import eventually
from support.factories import enqueue, status_of
from support.working import job_row
from wakeful import JobContext, LeaseLost, Registry, testing
from wakeful.core.settings import DatabaseSettings
from wakeful.store.database import open_database
from wakeful.telemetry.bus import Telemetry


async def test_a_private_database_has_the_schema_and_is_gone_afterwards() -> None:
    async with testing.database() as db:
        connection = await asyncpg.connect(db.dsn)
        try:
            created = await wakeful.enqueue(connection, "GREET", {"name": "you"})
        finally:
            await connection.close()

        async def greet(job: JobContext) -> str:
            return f"hello {job.payload['name']}"

        async with testing.instance(db, registry=greet) as w:
            assert await w.run_one()
        connection = await asyncpg.connect(db.dsn)
        try:
            assert (await job_row(connection, created.job_id))["result"] == "hello you"
        finally:
            await connection.close()
        await db.clear()
        connection = await asyncpg.connect(db.dsn)
        try:
            assert await connection.fetchval("select count(*) from wakeful.jobs") == 0
            assert (await wakeful.enqueue(connection, "GREET")).created
        finally:
            await connection.close()
        dsn = db.dsn
    with pytest.raises((OSError, asyncpg.PostgresError)):
        await asyncpg.connect(dsn)


async def test_a_database_may_be_named_in_three_ways(db: ClonedDatabase, sql: Connection) -> None:
    for _ in range(3):
        await enqueue(sql)
    async with (
        open_database(DatabaseSettings(dsn=db.dsn), Telemetry()) as database,
        testing.instance(db.dsn) as by_text,
        testing.instance(db) as by_object,
        testing.instance(database) as by_database,
    ):
        assert [bool(await w.claim()) for w in (by_text, by_object, by_database)] == [True] * 3
        await testing.expire_lease(db.dsn, by_text)
        await testing.expire_lease(database, by_object.instance_id)
        await testing.expire_lease(db, by_database)
        assert len(await testing.reap(db.dsn)) == 3
        assert await testing.reap(database) == []


async def test_an_instance_has_its_name_and_leaves_no_row_behind(db: ClonedDatabase, sql: Connection) -> None:
    async with testing.instance(db, name="w1") as w:
        row = await sql.fetchrow("select * from wakeful.instance")
        assert row is not None
        assert (row["name"], row["instance_id"], row["state"]) == ("w1", w.instance_id, "live")
    assert await sql.fetchval("select count(*) from wakeful.instance") == 0


async def test_an_instance_that_ends_with_a_job_leaves_it_to_the_reaper(
    db: ClonedDatabase, sql: Connection
) -> None:
    job_id = (await enqueue(sql)).job_id
    async with testing.instance(db) as w:
        assert await w.claim() is not None

    assert await status_of(sql, job_id) == "RUNNING"
    assert await testing.reap(db) == []
    await testing.expire_lease(db, w)
    (taken,) = await testing.reap(db)
    assert (taken.job_id, taken.status) == (job_id, "PENDING")
    row = await job_row(sql, job_id)
    assert "lease-expired reclaim" in row["last_error"]
    assert (row["attempts"], row["lost"]) == (0, 1)


async def test_a_deadline_and_a_backoff_of_its_own_replace_those_of_the_job(
    db: ClonedDatabase, sql: Connection
) -> None:
    job_id = (await enqueue(sql)).job_id
    attempts = []

    def backoff(attempt: int) -> float:
        attempts.append(attempt)
        return 0

    async def hang(job: JobContext) -> None:
        await anyio.sleep_forever()

    async with testing.instance(db, registry=hang, deadline=0.05, backoff=backoff) as w:
        assert await w.run_one()
        assert await w.run_one()

    assert attempts == [1, 2]
    assert (await job_row(sql, job_id))["last_error"].startswith("JobDeadlineExceeded")


async def test_run_one_comes_back_when_all_is_committed(db: ClonedDatabase, sql: Connection) -> None:
    job_id = (await enqueue(sql)).job_id
    registry = Registry()

    @registry.job("COLLECT")
    async def collect(job: JobContext) -> None:
        job.enqueue("BUILD")

    async with testing.instance(db, registry=registry) as w:
        assert await w.run_one() is True
        assert await status_of(sql, job_id) == "DONE"
        assert await sql.fetchval("select count(*) from wakeful.jobs where job_type = 'BUILD'") == 1
        assert await w.run_one() is True
        assert await w.run_one() is False


async def test_run_all_gives_how_many_attempts_were_made(db: ClonedDatabase, sql: Connection) -> None:
    for _ in range(3):
        await enqueue(sql)
    async with testing.instance(db, registry=lambda job: None) as w:
        assert await w.run_all() == 3
        assert await w.run_all() == 0


async def test_steps_are_reported_as_a_handler_does_it(db: ClonedDatabase, sql: Connection) -> None:
    job_id = (await enqueue(sql)).job_id
    async with testing.instance(db) as w:
        job = await w.claim()
        assert job is not None
        p = w.progress(job, ("prepare", "generate"))
        seen = []
        async with p.step("prepare") as step:
            await step.progress(40, "page 4 of 10")
            seen.append(await steps_of(sql, job_id))
        seen.append(await steps_of(sql, job_id))
        assert await w.finish(job)

    assert seen == [
        [("prepare", "running"), ("generate", "pending")],
        [("prepare", "done"), ("generate", "pending")],
    ]
    document = (await job_row(sql, job_id))["progress"]
    assert document["attempt"] == 1
    assert set(document["steps"][0]) == {
        *("name", "status", "started_at", "finished_at", "percent", "message", "error")
    }


async def test_a_step_of_a_former_claim_says_that_the_lease_is_lost(
    db: ClonedDatabase, sql: Connection
) -> None:
    await enqueue(sql)
    async with testing.instance(db) as w:
        job = await w.claim()
        assert job is not None
        p = w.progress(job, ("prepare",))
        await testing.expire_lease(db, w)
        await testing.reap(db)

        with pytest.raises(LeaseLost):
            await p.step("prepare").__aenter__()


async def test_a_document_of_ones_own_is_stored_by_the_current_claim_only(
    db: ClonedDatabase, sql: Connection
) -> None:
    job_id = (await enqueue(sql)).job_id
    async with testing.instance(db) as w:
        job = await w.claim()
        assert job is not None
        assert await w.set_progress(job, {"attempt": 1, "steps": [], "more": "of one's own"}) is True
        assert await w.fail(job, "no") == "PENDING"
        assert await w.set_progress(job, {"attempt": 1, "steps": []}) is False

    assert (await job_row(sql, job_id))["progress"]["more"] == "of one's own"


async def test_fail_takes_any_text_and_gives_the_status(db: ClonedDatabase, sql: Connection) -> None:
    job_id = (await enqueue(sql, max_attempts=2)).job_id
    async with testing.instance(db) as w:
        for status in ("PENDING", "DEAD"):
            job = await w.claim()
            assert job is not None
            assert await w.fail(job, "a\x00b\ud800" + "x" * 100_000) == status

    assert (await job_row(sql, job_id))["last_error"].startswith("Failed: a␀b")


async def test_a_beat_tells_a_running_handler_that_it_is_cancelled(
    db: ClonedDatabase, sql: Connection
) -> None:
    job_id = (await enqueue(sql)).job_id
    running = anyio.Event()

    async def handler(job: JobContext) -> None:
        running.set()
        await anyio.sleep_forever()

    async with testing.instance(db, registry=handler) as w, anyio.create_task_group() as group:
        group.start_soon(w.run_one)
        await running.wait()
        assert await sql.fetchval("select wakeful.cancel($1)", job_id) == "RUNNING"
        assert await w.beat() is True

    assert await status_of(sql, job_id) == "CANCELLED"


async def test_a_beat_of_an_instance_that_was_taken_for_dead_says_so(
    db: ClonedDatabase, sql: Connection
) -> None:
    async with testing.instance(db) as w:
        assert await w.beat() is True
        await testing.expire_lease(db, w)
        await testing.reap(db)
        assert await w.beat() is False
        assert await w.beat() is False


async def test_a_reaper_alone_takes_the_jobs_of_a_dead_owner_and_of_no_other(
    db: ClonedDatabase, sql: Connection
) -> None:
    dead_job, live_job = (await enqueue(sql)).job_id, (await enqueue(sql)).job_id
    async with testing.instance(db) as dead, testing.instance(db) as live:
        assert await dead.claim() is not None
        assert await live.claim() is not None
        await testing.expire_lease(db, dead)
        stop = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(run_reaper, db, stop)
            await eventually(lambda: status_of(sql, dead_job), until=lambda seen: seen == "PENDING")
            stop.set()

    assert await status_of(sql, live_job) == "RUNNING"


async def run_reaper(db: ClonedDatabase, stop: anyio.Event) -> None:
    await testing.run_reaper(db, stop, interval=0.05)


async def test_every_loop_runs_alone_and_ends_at_once_however_long_its_interval(
    db: ClonedDatabase, sql: Connection
) -> None:
    run_after = await sql.fetchval("select now() + interval '0.3 seconds'")
    job_id = (await enqueue(sql, run_after=run_after)).job_id
    stop = anyio.Event()
    async with anyio.create_task_group() as group:
        for loop in (testing.run_promoter, testing.run_pruner, testing.run_reaper):
            group.start_soon(partial(loop, db, stop, interval=600.0))
        in_ready = "select exists (select from wakeful.ready where job_id = $1)"
        await eventually(lambda: sql.fetchval(in_ready, job_id))
        began = anyio.current_time()
        stop.set()

    assert anyio.current_time() - began < 5


async def steps_of(sql: Connection, job_id: UUID) -> list[tuple[str, str]]:
    document = (await job_row(sql, job_id))["progress"]
    return [(step["name"], step["status"]) for step in document["steps"]]
