"""Follow-up jobs and alerts are committed with the finish, fenced like it: both or neither, once, and nobody waits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from support.databases import ClonedDatabase, Connection
from support.eventually import eventually, looked
from support.factories import enqueue, status_of
from support.proxy import Mode, Proxy
from support.working import job_row, telling
from wakeful import Fail, JobContext, Registry, Snooze, testing
from wakeful.core.settings import DatabaseSettings
from wakeful.store.database import Database, open_database
from wakeful.telemetry.events import FLUSH_FAILED, JOB_DEDUPLICATED, JOB_FINISHED, JOB_LOST, RESULT_REPLACED
from wakeful.telemetry.recorder import Recorder

NAME = "under test"


@asynccontextmanager
async def told(dsn: str) -> AsyncIterator[tuple[Database, Recorder]]:
    """A way to the database under a name, and what is said of it."""
    telemetry, recorder = telling()
    chosen = DatabaseSettings(dsn=dsn, connect_timeout=2.0)
    async with open_database(chosen, telemetry, application=NAME) as database:
        yield database, recorder


async def children(sql: Connection, job_type: str = "BUILD") -> int:
    count: int = await sql.fetchval("select count(*) from wakeful.jobs where job_type = $1", job_type)
    return count


async def alerts(sql: Connection) -> list[str]:
    rows = await sql.fetch("select dedupe_key from wakeful.alert_outbox order by outbox_id")
    return [row["dedupe_key"] for row in rows]


def chain(**options: str) -> Registry:
    """COLLECT enqueues BUILD and raises an alert."""
    registry = Registry()

    @registry.job("COLLECT")
    async def collect(job: JobContext) -> str:
        job.enqueue(
            "BUILD", {"place_id": "abc"}, dedupe_key=options.get("dedupe_key"), priority="interactive"
        )
        job.alert("publish_failed", title="no room", severity="error", subject="abc", body={"free": 0})
        return "collected"

    return registry


async def waits_in_server(sql: Connection) -> int:
    """Wait until a session under test waits for a lock, and give its pid."""
    return await eventually(
        lambda: sql.fetchval(
            """select pid from pg_stat_activity
               where application_name = $1 and wait_event_type = 'Lock'""",
            NAME,
        )
    )


async def test_a_finish_brings_its_follow_ups_and_alerts_along(db: ClonedDatabase, sql: Connection) -> None:
    job_id = (await enqueue(sql)).job_id
    async with testing.instance(db, registry=chain(dedupe_key="build:abc")) as w:
        assert await w.run_one()

    assert await status_of(sql, job_id) == "DONE"
    child = await sql.fetchrow("select * from wakeful.jobs where job_type = 'BUILD'")
    assert child is not None
    assert (child["priority"], child["dedupe_key"], child["subject"]) == ("interactive", "build:abc", "abc")
    assert await alerts(sql) == ["publish_failed:abc"]
    body = await sql.fetchval("select body from wakeful.alert_outbox where job_id = $1", job_id)
    assert body == '{"free": 0}'


async def test_a_follow_up_whose_key_an_active_job_has_is_not_created_and_that_is_said(
    db: ClonedDatabase, sql: Connection
) -> None:
    active = (await enqueue(sql, "OTHER", dedupe_key="k", queue="later")).job_id
    job_id = (await enqueue(sql)).job_id
    telemetry, recorder = telling()
    async with testing.instance(db, registry=chain(dedupe_key="k"), telemetry=telemetry) as w:
        while await status_of(sql, job_id) != "DONE":
            assert await w.run_one()

    assert await children(sql) == 0
    assert recorder.of(JOB_DEDUPLICATED, job_id=str(active), job_type="BUILD", dedupe_key="k")


@pytest.mark.parametrize("raised", [ValueError("no"), Fail("no"), Snooze(60)])
async def test_an_attempt_that_did_not_finish_starts_nothing_but_may_tell(
    db: ClonedDatabase, sql: Connection, raised: Exception
) -> None:
    async def handler(job: JobContext) -> None:
        job.enqueue("BUILD")
        job.alert("publish_failed", title="no room", subject="abc")
        raise raised

    await enqueue(sql)
    async with testing.instance(db, registry=handler) as w:
        await w.run_one()

    assert await children(sql) == 0
    expected = {Fail: ["job_dead:COLLECT:Fail", "publish_failed:abc"], Snooze: []}
    told = [key.partition("@")[0] for key in await alerts(sql)]
    assert told == expected.get(type(raised), ["publish_failed:abc"])


async def test_a_job_that_was_lost_starts_nothing_and_tells_nobody(
    db: ClonedDatabase, sql: Connection
) -> None:
    running_now, go_on = anyio.Event(), anyio.Event()

    async def handler(job: JobContext) -> None:
        job.enqueue("BUILD")
        job.alert("publish_failed", title="no room")
        running_now.set()
        await go_on.wait()

    await enqueue(sql)
    async with told(db.dsn) as (database, recorder), testing.instance(database, registry=handler) as w:
        async with anyio.create_task_group() as group:
            group.start_soon(w.run_one)
            await running_now.wait()
            await testing.expire_lease(db, w)
            await testing.reap(db)
            go_on.set()
        assert len(recorder.of(JOB_LOST)) == 1

    assert await children(sql) == 0
    assert await alerts(sql) == []


async def test_a_crash_in_the_middle_leaves_neither_and_the_chain_goes_on_afterwards(
    db: ClonedDatabase, sql: Connection
) -> None:
    """The server process dies after the parent was finished and before its follow-up was there."""
    job_id = (await enqueue(sql)).job_id
    producer = await db.connect()
    async with (
        told(db.dsn) as (database, _),
        testing.instance(database, registry=chain(dedupe_key="k")) as w,
        anyio.create_task_group() as group,
        producer.transaction(),
    ):
        await enqueue(producer, "OTHER", dedupe_key="k")
        group.start_soon(w.run_one)
        pid = await waits_in_server(sql)
        assert await sql.fetchval("select pg_terminate_backend($1, 5000)", pid)
        assert await status_of(sql, job_id) == "RUNNING"
        assert await children(sql) == 0
        assert await alerts(sql) == []
        await producer.execute("delete from wakeful.dedupe where key = 'k'")

    assert await status_of(sql, job_id) == "DONE"
    assert await children(sql) == 1
    assert await alerts(sql) == ["publish_failed:abc"]


async def test_a_follow_up_whose_key_is_held_open_stops_no_other_finish_and_ends_when_it_is_free(
    db: ClonedDatabase, sql: Connection
) -> None:
    registry = chain(dedupe_key="held")

    @registry.job("PLAIN")
    async def plain(job: JobContext) -> None: ...

    @registry.job("CHAIN")
    async def chained(job: JobContext) -> None:
        job.enqueue("BUILD", dedupe_key=str(job.job_id))

    producer = await db.connect()
    async with told(db.dsn) as (database, recorder), testing.instance(database, registry=registry) as w:
        async with anyio.create_task_group() as group, producer.transaction():
            holder = (await enqueue(producer, "OTHER", dedupe_key="held")).job_id
            parent = (await enqueue(sql)).job_id
            group.start_soon(w.run_one)
            await waits_in_server(sql)
            for kind in ("PLAIN", "CHAIN") * 10:
                await enqueue(sql, kind)
            with anyio.fail_after(30):
                assert await w.run_all() == 20 + 10  # the ten follow-ups as well
            assert await status_of(sql, parent) == "RUNNING"
        assert await status_of(sql, parent) == "DONE"
        assert recorder.of(FLUSH_FAILED) == []

    assert await children(sql) == 10
    assert await sql.fetchval("select wakeful.find_active('held')") == holder


async def test_however_many_follow_ups_wait_for_a_key_another_one_is_written_soon(
    db: ClonedDatabase, sql: Connection
) -> None:
    registry = chain(dedupe_key="held")

    @registry.job("CHAIN")
    async def chained(job: JobContext) -> None:
        job.enqueue("BUILD", dedupe_key=str(job.job_id))

    producer = await db.connect()
    async with (
        told(db.dsn) as (database, _),
        testing.instance(database, registry=registry) as w,
        anyio.create_task_group() as group,
        producer.transaction(),
    ):
        await enqueue(producer, "OTHER", dedupe_key="held")
        for _ in range(25):
            await enqueue(sql)
            group.start_soon(w.run_one)
        await waits_in_server(sql)
        finisher = w._parts.finisher
        await eventually(looked(lambda: finisher.unsettled), until=lambda count: count == 25)
        free = (await enqueue(sql, "CHAIN")).job_id
        began = anyio.current_time()
        group.start_soon(w.run_one)
        await eventually(lambda: status_of(sql, free), until=lambda seen: seen == "DONE")
        assert anyio.current_time() - began < 4.0  # and not 25 times 200 ms


async def test_a_commit_whose_reply_was_lost_doubles_no_follow_up(
    db: ClonedDatabase, sql: Connection, proxy: Proxy
) -> None:
    """The commit itself is held up by a deferred trigger, so that its reply alone is lost."""
    await sql.execute(
        """create function wakeful.wait_at_commit() returns trigger language plpgsql as
           $$ begin perform pg_advisory_xact_lock(7); return null; end $$;
           create constraint trigger wait_at_commit after insert on wakeful.finished
           deferrable initially deferred for each row execute function wakeful.wait_at_commit()"""
    )
    job_id = (await enqueue(sql)).job_id
    async with told(proxy.dsn(db.name)) as (database, recorder):
        async with testing.instance(database, registry=chain()) as w, anyio.create_task_group() as group:
            async with sql.transaction():
                await sql.execute("select pg_advisory_xact_lock(7)")
                group.start_soon(w.run_one)
                await waits_in_server(await db.connect())
                proxy.set(Mode.HOLD_REPLIES)
            await eventually(lambda: status_of(sql, job_id), until=lambda seen: seen == "DONE")
            await eventually(looked(proxy.links), until=lambda links: any(one.held for one in links))
            proxy.reset()
            proxy.set(Mode.PASS)
        assert len(recorder.of(JOB_FINISHED, job_id=str(job_id))) == 1

    assert await children(sql) == 1
    assert await alerts(sql) == ["publish_failed:abc"]


async def test_a_follow_up_that_the_database_refuses_fails_the_attempt_and_says_why(
    db: ClonedDatabase, sql: Connection
) -> None:
    await sql.execute("update wakeful.installation set payload_limit = 5")
    job_id = (await enqueue(sql)).job_id
    async with told(db.dsn) as (database, recorder), testing.instance(database, registry=chain()) as w:
        await w.run_one()
        assert len(recorder.of(RESULT_REPLACED)) == 1

    row = await job_row(sql, job_id)
    assert row["status"] == "PENDING"
    assert row["last_error"].startswith("OutcomeRefused: ")
    assert "payload" in row["last_error"]
    assert (await children(sql), await alerts(sql)) == (0, [])


async def test_many_follow_ups_of_one_job_are_all_or_nothing(db: ClonedDatabase, sql: Connection) -> None:
    async def handler(job: JobContext) -> None:
        for number in range(200):
            job.enqueue("BUILD", {"n": number})

    await enqueue(sql)
    registry = Registry()
    registry.job("COLLECT")(handler)
    async with testing.instance(db, registry=registry) as w:
        assert await w.run_one()
    assert await children(sql) == 200


async def test_a_follow_up_with_a_key_that_is_active_already_is_no_failure(
    db: ClonedDatabase, sql: Connection
) -> None:
    active = (await enqueue(sql, "BUILD", dedupe_key="k", run_after=None)).job_id
    await sql.execute("select wakeful.pause('default')")
    parent = (await enqueue(sql, queue="other")).job_id
    async with testing.instance(db, registry=chain(dedupe_key="k")) as w:
        assert await w.run_one()

    assert await status_of(sql, parent) == "DONE"
    assert await sql.fetchval("select wakeful.find_active('k')") == active
    assert await children(sql) == 1
