"""Everything at once: what must hold when instances, operators, reapers and locks all pull at the same rows."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from functools import partial

import anyio
import asyncpg

from support.databases import ClonedDatabase, Connection
from support.eventually import eventually, looked
from support.factories import enqueue
from support.running import brisk, running
from wakeful import JobContext, Registry, Snooze, testing
from wakeful.telemetry.events import JOB_LOST, JOB_STARTED

SECONDS = 6.0
WAITING = """
select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()
"""


class KeyTaken(asyncpg.PostgresError):
    """A requeue was refused: its dedupe key is another job's by now."""

    sqlstate = "WK012"


async def starts_agree_with_the_database(sql: Connection, starts: Counter[str]) -> None:
    """Each start is a claim: never two for one run, and none that the database does not know."""
    rows = await sql.fetch("select job_id, run_no from wakeful.jobs")
    for row in rows:
        assert starts[str(row["job_id"])] <= row["run_no"]


async def test_operators_reapers_and_two_instances_lose_nothing_and_start_nothing_twice(
    db: ClonedDatabase, sql: Connection
) -> None:
    chance = random.Random(11)
    running_now, overlaps, starts = Counter[str](), [], Counter[str]()
    registry = Registry()

    @registry.job("WORK", max_attempts=3, backoff=lambda attempt: 0, steps=("only",))
    async def work(job: JobContext) -> None:
        key = str(job.job_id)
        starts[key] += 1
        running_now[key] += 1
        if running_now[key] > 1:
            overlaps.append(key)
        try:
            async with job.step("only"):
                await anyio.sleep(chance.random() * 0.01)
            dice = chance.random()
            if dice < 0.2:
                raise ValueError("no")
            if dice < 0.3:
                raise Snooze(0)
            if dice < 0.5:
                job.enqueue("WORK", dedupe_key=f"child of {job.job_id}", max_attempts=3)
        finally:
            running_now[key] -= 1

    deadlocks_before = await deadlocks(sql)
    async with running(db, registry) as one, running(db, registry) as two:
        await everybody_pulls(db, sql, chance)
        await sql.execute("update wakeful.queue set paused_at = null")
        open_jobs = "select count(*) from wakeful.jobs where status in ('PENDING', 'RUNNING')"
        await eventually(lambda: sql.fetchval(open_jobs), until=lambda count: count == 0, timeout=60)
        assert one.recorder.of(JOB_LOST) == two.recorder.of(JOB_LOST) == []
        told = Counter(str(seen["job_id"]) for it in (one, two) for seen in it.recorder.of(JOB_STARTED))
        assert all(told[key] >= count for key, count in starts.items())

    assert overlaps == []
    await starts_agree_with_the_database(sql, starts)
    await nothing_is_left_over(sql)
    assert await deadlocks(sql) == deadlocks_before


async def everybody_pulls(db: ClonedDatabase, sql: Connection, chance: random.Random) -> None:
    """For some seconds, enqueue, cancel, requeue, reap, pause and resume."""
    stop = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(cancel_and_requeue, await db.connect(), stop, chance)
        group.start_soon(reap, db, stop)
        group.start_soon(pause_and_resume, await db.connect(), stop)
        with anyio.move_on_after(SECONDS):
            while True:
                await enqueue(sql, "WORK", max_attempts=3, dedupe_key=f"key {chance.randrange(50)}")
                await anyio.sleep(0.002)
        stop.set()


async def nothing_is_left_over(sql: Connection) -> None:
    """No key without a job, no job lost, none in two places, and each death was told."""
    assert await sql.fetchval("select count(*) from wakeful.dedupe") == 0
    assert await sql.fetchval("select max(lost) from wakeful.jobs") == 0
    assert await sql.fetchval("select count(*) - count(distinct job_id) from wakeful.jobs") == 0
    deaths = "select count(*) from wakeful.alert_outbox where kind = 'job_dead'"
    assert await sql.fetchval(deaths) >= await sql.fetchval("select count(*) from wakeful.dead")


async def deadlocks(sql: Connection) -> int:
    count: int = await sql.fetchval(
        "select deadlocks from pg_stat_database where datname = current_database()"
    )
    return count


async def cancel_and_requeue(sql: Connection, stop: anyio.Event, chance: random.Random) -> None:
    while not stop.is_set():
        rows = await sql.fetch("select job_id, status from wakeful.jobs order by random() limit 3")
        for row in rows:
            call = "requeue" if row["status"] in ("DEAD", "CANCELLED") else "cancel"
            if call == "cancel" and chance.random() < 0.7:
                continue
            with suppress(KeyTaken):
                await sql.fetchval(f"select wakeful.{call}($1)", row["job_id"])
        await anyio.sleep(0.005)


async def reap(db: ClonedDatabase, stop: anyio.Event) -> None:
    while not stop.is_set():
        assert await testing.reap(db) == []
        await anyio.sleep(0.05)


async def pause_and_resume(sql: Connection, stop: anyio.Event) -> None:
    while not stop.is_set():
        await sql.execute("select wakeful.pause('default')")
        await anyio.sleep(0.02)
        await sql.execute("select wakeful.resume('default')")
        await anyio.sleep(0.1)


async def test_a_lock_on_the_whole_table_charges_no_job_and_starts_none_twice(
    db: ClonedDatabase, sql: Connection
) -> None:
    """As a migration or VACUUM FULL does; longer than a statement may take."""
    starts, go_on, registry = Counter[str](), anyio.Event(), Registry()

    @registry.job("WORK")
    async def work(job: JobContext) -> None:
        starts[str(job.job_id)] += 1
        await go_on.wait()

    locker = await db.connect()
    settings = brisk(concurrency=5)
    settings = replace(settings, database=replace(settings.database, statement_timeout=0.5))
    async with (
        running(db, registry, settings=settings) as one,
        running(db, registry, settings=settings) as two,
    ):
        ids = [(await enqueue(sql, "WORK")).job_id for _ in range(10)]
        for job_id in ids:
            await eventually(looked(partial(starts.get, str(job_id))))
        async with locker.transaction():
            await locker.execute("lock table wakeful.ready in access exclusive mode")
            go_on.set()
            await anyio.sleep(2.0)
            assert await sql.fetchval(WAITING) <= 12
        done = "select count(*) from wakeful.finished where status = 'DONE'"
        await eventually(lambda: sql.fetchval(done), until=lambda count: count == 10, timeout=20)
        assert one.recorder.of(JOB_LOST) == two.recorder.of(JOB_LOST) == []

    assert set(starts.values()) == {1}
    charged = await sql.fetchval(
        "select count(*) from wakeful.jobs where attempts <> 1 or lost + handed_back > 0 or errors <> '[]'"
    )
    assert charged == 0
