"""The contract, row "deadline": a handler that hangs is ended, and one that can't be is stuck, replaced and told."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from functools import partial
from operator import eq

import anyio
import pytest

from support.databases import ClonedDatabase, Connection
from support.eventually import eventually, looked
from support.factories import enqueue, status_of
from support.running import brisk, running
from support.working import job_row
from wakeful import JobContext, Registry, testing
from wakeful.telemetry.events import (
    JOB_FINISHED,
    JOB_OVERLAPPED,
    JOB_RETRIED,
    JOB_STARTED,
    JOB_STUCK,
    JOB_UNSTUCK,
)


async def test_a_job_that_waits_for_a_thread_past_its_deadline_is_put_back_and_pays_nothing(
    db: ClonedDatabase, sql: Connection
) -> None:
    registry, release = Registry(), threading.Event()

    @registry.job("HOLD", deadline=60)
    def hold(job: JobContext) -> None:
        release.wait(60)

    @registry.job("LATE", deadline=0.2, backoff=lambda attempt: 600)
    def late(job: JobContext) -> list[object]:
        return [job.attempt, job.run_no, job.time_left() > 0.1]

    async with running(db, registry, settings=brisk(concurrency=2, threads=1)) as one:
        try:
            holding = (await enqueue(sql, "HOLD")).job_id
            await one.recorder.seen(JOB_STARTED, job_id=str(holding))
            await eventually(looked(lambda: one.parts.executing.threads.running))
            waiting = (await enqueue(sql, "LATE")).job_id
            claims = "select run_no from wakeful.ready where job_id = $1"
            await eventually(lambda: sql.fetchval(claims, waiting), until=lambda run_no: run_no == 3)
        finally:
            release.set()
        await one.recorder.seen(JOB_FINISHED, job_id=str(waiting))

    row = await job_row(sql, waiting)
    assert (row["status"], row["attempts"], row["handed_back"], row["errors"]) == ("DONE", 1, 0, [])
    attempt, run_no, has_its_time = row["result"]
    assert (attempt, has_its_time) == (1, True)
    assert run_no >= 3
    assert not one.recorder.of(JOB_STUCK)


async def test_a_handler_that_hangs_is_cancelled_at_its_deadline_and_the_worker_is_free_again(
    db: ClonedDatabase, sql: Connection
) -> None:
    registry = Registry()
    ended = []

    @registry.job("HANG", deadline=0.2)
    async def hang(job: JobContext) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(job.cancelled)

    @registry.job("QUICK")
    async def quick(job: JobContext) -> str:
        return "done"

    async with running(db, registry, settings=brisk(concurrency=1)) as one:
        hanging = (await enqueue(sql, "HANG")).job_id
        await one.recorder.seen(JOB_RETRIED, job_id=str(hanging))
        quick_one = (await enqueue(sql, "QUICK")).job_id
        await one.recorder.seen(JOB_FINISHED, job_id=str(quick_one))

    row = await job_row(sql, hanging)
    assert row["last_error"] == "JobDeadlineExceeded: ran for more than 0.2 s"
    assert (row["attempts"], ended) == (1, [True])
    assert row["errors"][0]["type"] == "JobDeadlineExceeded"


@pytest.mark.case("F37")
async def test_the_deadline_is_the_jobs_own_where_it_was_given_one(
    db: ClonedDatabase, sql: Connection
) -> None:
    job_id = (await enqueue(sql)).job_id
    await sql.execute("update wakeful.ready set deadline = '0.1 seconds'")

    async def hang(job: JobContext) -> None:
        await anyio.sleep_forever()

    async with testing.instance(db, registry=hang) as w:
        assert await w.run_one()
    assert (await job_row(sql, job_id))["last_error"] == "JobDeadlineExceeded: ran for more than 0.1 s"


async def test_what_a_handler_makes_of_its_cancellation_does_not_change_that_it_was_too_late(
    db: ClonedDatabase, sql: Connection
) -> None:
    ids = [(await enqueue(sql, kind)).job_id for kind in ("RETURNS", "RAISES")]
    registry = Registry()

    @registry.job("RETURNS")
    async def returns(job: JobContext) -> str:
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            return "late"
        return "never"

    @registry.job("RAISES")
    async def raises(job: JobContext) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise RuntimeError("the client is closed")

    async with testing.instance(db, registry=registry, deadline=0.1) as w:
        assert await w.run_all() == 2
    for job_id in ids:
        row = await job_row(sql, job_id)
        assert (row["status"], row["result"]) == ("PENDING", None)
        assert row["last_error"].startswith("JobDeadlineExceeded")


async def test_the_time_that_is_left_is_known_to_the_handler(db: ClonedDatabase, sql: Connection) -> None:
    async def handler(job: JobContext) -> float:
        return job.time_left()

    job_id = (await enqueue(sql)).job_id
    async with testing.instance(db, registry=handler, deadline=100.0) as w:
        await w.run_one()
    assert 90 < (await job_row(sql, job_id))["result"] <= 100


@pytest.mark.case("F37")
async def test_the_wait_for_a_worker_does_not_count(db: ClonedDatabase, sql: Connection) -> None:
    """Claimed and waiting is not running: the deadline starts with the handler."""
    registry = Registry()

    @registry.job("COLLECT", deadline=0.5)
    async def collect(job: JobContext) -> float:
        return job.time_left()

    job_id = (await enqueue(sql)).job_id
    async with testing.instance(db, registry=registry, deadline=0.5) as w:
        holding = await w._claim()
        assert holding is not None
        await anyio.sleep(0.6)
        landed = anyio.Event()
        await w._execute(holding, landed)
        await landed.wait()
    row = await job_row(sql, job_id)
    assert row["status"] == "DONE"
    assert row["result"] > 0.4


@pytest.mark.case("I13")
async def test_a_deaf_plain_function_is_told_stuck_replaced_and_fails_only_after_its_grace(
    db: ClonedDatabase, sql: Connection
) -> None:
    release, cancelled_seen = threading.Event(), threading.Event()

    def deaf(job: JobContext) -> str:
        while not release.wait(0.01):
            if job.cancelled:
                cancelled_seen.set()
        return "at last"

    await sees_a_deaf_handler_through(db, sql, deaf, release.set, kind="thread", grace=1.6)
    assert cancelled_seen.is_set()


async def test_a_deaf_async_function_is_told_stuck_replaced_and_fails_only_after_its_grace(
    db: ClonedDatabase, sql: Connection
) -> None:
    released, cancellations = anyio.Event(), 0

    async def deaf(job: JobContext) -> str:
        nonlocal cancellations
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                cancellations += 1
        return "at last"

    await sees_a_deaf_handler_through(db, sql, deaf, released.set, kind="async", grace=1.6)
    assert cancellations >= 2


async def sees_a_deaf_handler_through(
    db: ClonedDatabase,
    sql: Connection,
    deaf: Callable[[JobContext], object],
    release: Callable[[], None],
    *,
    kind: str,
    grace: float,
) -> None:
    registry = Registry()
    registry.job("DEAF", deadline=grace, backoff=lambda attempt: 600)(deaf)

    @registry.job("QUICK")
    async def quick(job: JobContext) -> None: ...

    job_id = (await enqueue(sql, "DEAF")).job_id
    await sql.execute("update wakeful.ready set deadline = make_interval(secs => $1)", grace)
    async with running(db, registry, settings=brisk(concurrency=1, threads=1)) as one:
        try:
            began = time.monotonic()
            stuck = await one.recorder.seen(JOB_STUCK, job_id=str(job_id))
            assert stuck["kind"] == kind
            # Still ours, shown as running, and its place was given to another worker.
            assert await status_of(sql, job_id) == "RUNNING"
            other = (await enqueue(sql, "QUICK")).job_id
            await one.recorder.seen(JOB_FINISHED, job_id=str(other))
            assert await status_of(sql, job_id) == "RUNNING"
            assert [attempt.job_id for attempt in one.parts.attempts.stuck] == [job_id]

            await one.recorder.seen(JOB_OVERLAPPED, job_id=str(job_id))
            await eventually(lambda: status_of(sql, job_id), until=lambda seen: seen == "PENDING")
            assert time.monotonic() - began >= 2 * grace - 0.1
            row = await job_row(sql, job_id)
            assert row["last_error"].startswith(f"JobDeadlineExceeded: ran for more than {grace:g} s")
            assert "may still run" in row["last_error"]
            assert row["attempts"] == 1
        finally:
            release()
        await one.recorder.seen(JOB_UNSTUCK, job_id=str(job_id))
        # Its late result is nobody's, and the crew is as large as before.
        another = (await enqueue(sql, "QUICK")).job_id
        await one.recorder.seen(JOB_FINISHED, job_id=str(another))
        crew = one.parts.crew
        await eventually(looked(lambda: (crew.busy, crew.free)), until=lambda seen: seen == (0, 1))
    assert (await job_row(sql, job_id))["result"] is None


async def test_a_deaf_handler_that_ends_within_its_grace_has_failed_then_and_not_before(
    db: ClonedDatabase, sql: Connection
) -> None:
    release = threading.Event()
    registry = Registry()

    @registry.job("DEAF", deadline=0.2, backoff=lambda attempt: 600)
    def deaf(job: JobContext) -> str:
        release.wait(30)
        return "late"

    job_id = (await enqueue(sql, "DEAF")).job_id
    await sql.execute("update wakeful.ready set deadline = '1 hour'")
    async with running(db, registry, settings=brisk(concurrency=1)) as one:
        running_now = one.parts.attempts.running
        await eventually(looked(lambda: len(running_now)))
        (attempt,) = running_now.values()
        attempt.deadline = time.monotonic()
        await one.recorder.seen(JOB_STUCK, job_id=str(job_id))
        assert await status_of(sql, job_id) == "RUNNING"
        release.set()
        await eventually(lambda: status_of(sql, job_id), until=lambda seen: seen == "PENDING")
        assert one.recorder.of(JOB_OVERLAPPED) == []
    assert (await job_row(sql, job_id))["last_error"].startswith("JobDeadlineExceeded")


@pytest.mark.parametrize("kind", ["async", "thread"])
@pytest.mark.case("F35")
async def test_only_so_many_workers_are_replaced(db: ClonedDatabase, sql: Connection, kind: str) -> None:
    released, release = anyio.Event(), threading.Event()
    registry = Registry()

    async def deaf_on_loop(job: JobContext) -> None:
        while not released.is_set():
            with anyio.CancelScope(shield=True):
                try:
                    await released.wait()
                except asyncio.CancelledError:
                    continue

    def deaf_in_thread(job: JobContext) -> None:
        release.wait(60)

    registry.job("DEAF", deadline=0.1)(deaf_on_loop if kind == "async" else deaf_in_thread)
    ids = [(await enqueue(sql, "DEAF")).job_id for _ in range(5)]
    await sql.execute("update wakeful.ready set deadline = '1 hour'")
    async with running(db, registry, settings=brisk(concurrency=1, threads=1, stuck_limit=2)) as one:
        attempts = one.parts.attempts.running
        try:
            for number in range(1, 4):
                await eventually(looked(lambda: len(attempts)), until=partial(eq, number))
                for attempt in attempts.values():
                    attempt.deadline = 0.0
                await eventually(looked(lambda: len(one.parts.attempts.stuck)), until=partial(eq, number))
            running_ids = [job_id for job_id in ids if await status_of(sql, job_id) == "RUNNING"]
            assert len(running_ids) == 3
            assert sum(attempt.replaced for attempt in attempts.values()) == 2
        finally:
            await sql.execute("select wakeful.pause('default')")
            released.set()
            release.set()
