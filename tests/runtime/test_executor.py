"""Handlers as they really run: whatever one does, the others and the daemon go on, and nothing leaks between them."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import anyio
import pytest

from support.databases import ClonedDatabase, Connection
from support.eventually import eventually, looked
from support.factories import enqueue, status_of
from support.running import brisk, running
from support.working import job_row
from wakeful import JobContext, Registry, testing
from wakeful.runtime.lease import suspended_clock
from wakeful.telemetry.events import (
    INSTANCE_REGISTERED,
    JOB_CLAIMED,
    JOB_FINISHED,
    JOB_HANDED_BACK,
    JOB_RETRIED,
    JOB_STARTED,
    LEASE_FENCED,
)

left_behind: ContextVar[str] = ContextVar("left_behind", default="nothing")


async def all_ended(sql: Connection, *, timeout: float = 60.0) -> None:
    open_jobs = "select count(*) from wakeful.jobs where status in ('PENDING', 'RUNNING')"
    await eventually(lambda: sql.fetchval(open_jobs), until=lambda count: count == 0, timeout=timeout)


@pytest.mark.case("F93")
async def test_five_hundred_jobs_in_sixteen_slots_leave_nothing_in_each_others_context_or_lines(
    db: ClonedDatabase, sql: Connection
) -> None:
    registry, found = Registry(), list[str]()

    @registry.job("ASYNC")
    async def on_loop(job: JobContext) -> str:
        found.append(left_behind.get())
        left_behind.set(str(job.job_id))
        await anyio.sleep(random.random() * 0.005)
        found.append("kept" if left_behind.get() == str(job.job_id) else "mixed up")
        job.log.info("ran", message_id=str(job.job_id))
        return str(job.job_id)

    @registry.job("THREAD")
    def in_thread(job: JobContext) -> str:
        found.append(left_behind.get())
        left_behind.set(str(job.job_id))
        threading.Event().wait(random.random() * 0.005)
        found.append("kept" if left_behind.get() == str(job.job_id) else "mixed up")
        job.log.info("ran", message_id=str(job.job_id))
        return str(job.job_id)

    async with running(db, registry, settings=brisk(concurrency=16)):
        for number in range(500):
            await enqueue(sql, "THREAD" if number % 2 else "ASYNC")
        await all_ended(sql)
        count = "select count(*) from wakeful.job_log"
        await eventually(lambda: sql.fetchval(count), until=lambda seen: seen == 500)

    assert sorted(set(found)) == ["kept", "nothing"]
    wrong_result = "select count(*) from wakeful.finished where result #>> '{}' <> job_id::text"
    assert await sql.fetchval(wrong_result) == 0
    wrong_line = "select count(*) from wakeful.job_log where message not like '%' || job_id || '%'"
    assert await sql.fetchval(wrong_line) == 0


LEFTOVERS: list[asyncio.Task[None]] = []


async def cancels_itself(job: JobContext) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await anyio.sleep(1)


async def cancels_itself_later(job: JobContext) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().call_later(0.02, task.cancel)


async def uncancels_for_ever(job: JobContext) -> None:
    task = asyncio.current_task()
    assert task is not None
    for _ in range(5):
        task.uncancel()


async def enters_a_scope_and_never_leaves(job: JobContext) -> None:
    anyio.CancelScope(deadline=anyio.current_time() + 0.01).__enter__()


async def cancels_a_scope_round_itself(job: JobContext) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await anyio.sleep(1)


async def leaves_a_task_behind(job: JobContext) -> None:
    LEFTOVERS.append(asyncio.get_running_loop().create_task(asyncio.sleep(0.05)))


async def exits(job: JobContext) -> None:
    raise SystemExit(1)


async def returns_a_coroutine(job: JobContext) -> object:
    return anyio.sleep(1)


async def changes_its_payload(job: JobContext) -> None:
    job.payload.clear()  # type: ignore[attr-defined]


def exits_in_its_thread(job: JobContext) -> None:
    raise SystemExit(1)


def stops_iterating(job: JobContext) -> None:
    raise StopIteration


NAUGHTY: tuple[Callable[[JobContext], object], ...] = (
    cancels_itself,
    cancels_itself_later,
    uncancels_for_ever,
    enters_a_scope_and_never_leaves,
    cancels_a_scope_round_itself,
    leaves_a_task_behind,
    exits,
    returns_a_coroutine,
    changes_its_payload,
    exits_in_its_thread,
    stops_iterating,
)


@pytest.mark.parametrize("handler", NAUGHTY, ids=lambda handler: handler.__name__)
async def test_whatever_a_handler_does_to_its_task_the_next_jobs_of_its_worker_run(
    db: ClonedDatabase, sql: Connection, handler: Callable[[JobContext], object]
) -> None:
    registry = Registry()
    registry.job("NAUGHTY", max_attempts=1)(handler)

    @registry.job("NICE")
    async def nice(job: JobContext) -> str:
        await anyio.sleep(0.01)
        return "well"

    async with running(db, registry, settings=brisk(concurrency=1)) as one:
        for _ in range(3):
            await enqueue(sql, "NAUGHTY", max_attempts=1)
            await enqueue(sql, "NICE")
        await all_ended(sql)
        await anyio.sleep(0.05)  # what comes late comes now
        after = (await enqueue(sql, "NICE")).job_id
        await one.recorder.seen(JOB_FINISHED, job_id=str(after))
        assert (one.parts.crew.busy, one.parts.crew.waiting) == (0, 0)
    nice_ones = "select count(*) from wakeful.jobs where job_type = 'NICE' and status = 'DONE'"
    assert await sql.fetchval(nice_ones) == 4


async def cancels_itself_without_waiting(job: JobContext) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


async def leaves_a_variable(job: JobContext) -> None:
    left_behind.set(str(job.job_id))


SILENT = (enters_a_scope_and_never_leaves, cancels_itself_without_waiting, leaves_a_variable)


@pytest.mark.case("F93")
@pytest.mark.parametrize("handler", SILENT, ids=lambda handler: handler.__name__)
async def test_of_jobs_that_a_worker_runs_in_a_row_none_meets_what_another_has_left(
    db: ClonedDatabase, sql: Connection, handler: Callable[[JobContext], object]
) -> None:
    registry, found = Registry(), list[str]()
    registry.job("SILENT", max_attempts=1)(handler)

    @registry.job("NICE")
    async def nice(job: JobContext) -> str:
        found.append(left_behind.get())
        await asyncio.sleep(0.02)
        return "well"

    @registry.job("QUICK")
    async def quick(job: JobContext) -> None:
        found.append(left_behind.get())

    # Held back until all are there; the first ones teach the pace of their types, so that the others wait in a row.
    await sql.execute("select wakeful.pause('default')")
    for _ in range(30):
        await enqueue(sql, "SILENT", max_attempts=1)
        await enqueue(sql, "QUICK")
    for _ in range(5):
        await enqueue(sql, "NICE")
    async with running(db, registry, settings=brisk(concurrency=1)) as one:
        await sql.execute("select wakeful.resume('default')")
        await all_ended(sql)
        assert (one.parts.crew.busy, one.parts.crew.waiting) == (0, 0)

    assert found == ["nothing"] * 35
    assert await sql.fetchval("select count(*) from wakeful.jobs where status <> 'DONE'") == 0
    assert await sql.fetchval("select count(*) from wakeful.jobs where attempts <> 1") == 0


async def test_a_handler_that_blocks_the_loop_loses_no_lease_and_no_other_job(
    db: ClonedDatabase, sql: Connection
) -> None:
    registry = Registry()

    @registry.job("BLOCK")
    async def block(job: JobContext) -> None:
        threading.Event().wait(1.0)

    @registry.job("NICE")
    async def nice(job: JobContext) -> None:
        await anyio.sleep(0.2)

    async with running(db, registry) as one:
        ids = [(await enqueue(sql, kind)).job_id for kind in ("NICE", "BLOCK", "NICE")]
        for job_id in ids:
            await one.recorder.seen(JOB_FINISHED, job_id=str(job_id))
        assert len(one.recorder.of(INSTANCE_REGISTERED)) == 1
    starts = [str(seen["job_id"]) for seen in one.recorder.of(JOB_STARTED)]
    assert sorted(starts) == sorted(str(job_id) for job_id in ids)


async def test_resources_are_opened_before_the_first_job_and_shared_by_all(
    db: ClonedDatabase, sql: Connection
) -> None:
    registry, events = Registry(), list[str]()

    @registry.lifespan
    async def resources() -> AsyncIterator[dict[str, int]]:
        events.append("opened")
        yield {"calls": 0}
        events.append("closed")

    @registry.job("COLLECT")
    async def collect(job: JobContext) -> int:
        events.append("ran")
        job.resources["calls"] += 1
        calls: int = job.resources["calls"]
        return calls

    ids = [(await enqueue(sql)).job_id for _ in range(2)]
    async with testing.instance(db, registry=registry) as w:
        await w.run_all()
    assert events == ["opened", "ran", "ran", "closed"]
    assert [(await job_row(sql, job_id))["result"] for job_id in ids] == [1, 2]


async def test_the_hook_is_round_each_attempt_and_may_fail_it(db: ClonedDatabase, sql: Connection) -> None:
    registry, seen = Registry(), list[tuple[str, int]]()

    @registry.around
    async def hook(job: JobContext, call: Callable[[], Awaitable[object]]) -> object:
        seen.append(("before", job.attempt))
        value = await call()
        seen.append(("after", job.attempt))
        if job.attempt == 1:
            raise RuntimeError("the hook says no")
        return value

    @registry.job("COLLECT", backoff=lambda attempt: 0)
    async def collect(job: JobContext) -> str:
        return "done"

    job_id = (await enqueue(sql)).job_id
    async with testing.instance(db, registry=registry, backoff=lambda attempt: 0) as w:
        assert await w.run_all() == 2
    assert seen == [("before", 1), ("after", 1), ("before", 2), ("after", 2)]
    row = await job_row(sql, job_id)
    assert (row["result"], row["last_error"]) == ("done", "RuntimeError: the hook says no")


async def test_a_handler_sees_its_job(db: ClonedDatabase, sql: Connection) -> None:
    seen: list[Any] = []

    async def handler(job: JobContext) -> None:
        seen.append((job.job_id, job.job_type, dict(job.payload), job.attempt, job.max_attempts, job.run_no))
        seen.append((job.subject, job.queue, job.priority, job.tags, job.meta))

    job_id = (
        await enqueue(
            sql,
            "COLLECT",
            {"place_id": "abc"},
            queue="crawl",
            priority="batch",
            max_attempts=7,
            tags=["a"],
            meta={"traceparent": "00-1"},
        )
    ).job_id
    async with testing.instance(db, registry=handler) as w:
        await w.run_one()
    assert seen == [
        (job_id, "COLLECT", {"place_id": "abc"}, 1, 7, 1),
        ("abc", "crawl", "batch", ("a",), {"traceparent": "00-1"}),
    ]


async def test_without_a_beat_for_60_percent_of_the_lease_a_claimed_job_is_not_started(
    db: ClonedDatabase, sql: Connection
) -> None:
    called: list[JobContext] = []
    job_id = (await enqueue(sql)).job_id
    async with testing.instance(db, registry=called.append) as w:
        holding = await w._claim()
        assert holding is not None
        w._parts.lease._sent = suspended_clock() - 0.61 * holding.lease
        landed = anyio.Event()
        await w._execute(holding, landed)
        await landed.wait()
    row = await job_row(sql, job_id)
    assert called == []
    assert (row["status"], row["attempts"], row["handed_back"], row["lost"]) == ("PENDING", 0, 0, 0)


async def test_without_a_beat_for_80_percent_a_running_job_is_stopped_and_counts_as_lost(
    db: ClonedDatabase, sql: Connection
) -> None:
    registry = Registry()

    @registry.job("COLLECT")
    async def collect(job: JobContext) -> None:
        await anyio.sleep_forever()

    async with running(db, registry, beat=False) as one:
        job_id = (await enqueue(sql)).job_id
        await one.recorder.seen(JOB_STARTED, job_id=str(job_id))
        await sql.execute("select wakeful.pause('default')")
        one.parts.lease._sent = suspended_clock() - 0.81 * 30
        await one.recorder.seen(LEASE_FENCED, stage="running")
        await eventually(lambda: status_of(sql, job_id), until=lambda seen: seen == "PENDING")
        row = await job_row(sql, job_id)
        assert (row["attempts"], row["lost"]) == (0, 1)
        assert "lease-expired reclaim" in row["last_error"]


async def test_an_interrupted_job_is_handed_back_with_its_attempt(
    db: ClonedDatabase, sql: Connection
) -> None:
    registry = Registry()

    @registry.job("COLLECT")
    async def collect(job: JobContext) -> None:
        await anyio.sleep_forever()

    async with running(db, registry) as one:
        job_id = (await enqueue(sql)).job_id
        await one.recorder.seen(JOB_STARTED, job_id=str(job_id))
        await sql.execute("select wakeful.pause('default')")
        one.parts.attempts.interrupt_all()
        await one.recorder.seen(JOB_HANDED_BACK, job_id=str(job_id))
        row = await job_row(sql, job_id)
        assert (row["status"], row["attempts"], row["handed_back"]) == ("PENDING", 0, 1)
        assert row["errors"] == []


async def test_a_job_that_a_worker_takes_while_all_are_interrupted_goes_back_unstarted(
    db: ClonedDatabase, sql: Connection
) -> None:
    started: list[object] = []

    async def handler(job: JobContext) -> None:
        started.append(job.job_id)

    job_id = (await enqueue(sql)).job_id
    async with testing.instance(db, registry=handler) as w:
        w._parts.attempts.interrupt_all()
        with anyio.fail_after(30):
            assert await w.run_one()
    row = await job_row(sql, job_id)
    assert (row["status"], row["attempts"], row["handed_back"]) == ("PENDING", 0, 0)
    assert started == []


async def test_workers_that_a_handler_cancels_are_replaced(db: ClonedDatabase, sql: Connection) -> None:
    registry, inside, all_inside = Registry(), list[object](), anyio.Event()

    @registry.job("CRUEL")
    async def cruel(job: JobContext) -> None:
        for task in asyncio.all_tasks():  # idle ones, and those that have not begun
            if "Workers._work" in repr(task) and task is not asyncio.current_task():
                task.cancel()

    @registry.job("TOGETHER", deadline=10, max_attempts=1)
    async def together(job: JobContext) -> None:
        inside.append(job.job_id)
        if len(inside) == 3:
            all_inside.set()
        await all_inside.wait()

    async with running(db, registry, settings=brisk(concurrency=3)):
        for _ in range(3):
            await sql.execute("select wakeful.enqueue('CRUEL') from generate_series(1, 3)")
            await all_ended(sql)
        await sql.execute("select wakeful.enqueue('TOGETHER') from generate_series(1, 3)")
        await all_ended(sql)
    done = "select count(*) from wakeful.jobs where job_type = 'TOGETHER' and status = 'DONE'"
    assert await sql.fetchval(done) == 3


async def test_jobs_that_wait_behind_a_slower_one_than_expected_go_back_unstarted(
    db: ClonedDatabase, sql: Connection
) -> None:
    registry, go_on, started = Registry(), anyio.Event(), list[object]()

    @registry.job("COLLECT")
    async def collect(job: JobContext) -> None:
        started.append(job.job_id)
        await go_on.wait()

    async with running(db, registry, settings=brisk(concurrency=1)) as one:
        for _ in range(50):
            one.parts.claiming.pace.ran("COLLECT", 0.001)
        await sql.execute("select wakeful.pause('default')")
        ids = [(await enqueue(sql)).job_id for _ in range(5)]
        await sql.execute("select wakeful.resume('default')")
        await one.recorder.seen(JOB_CLAIMED, job_id=str(ids[-1]))
        owned = "select count(*) from wakeful.ready where owner is not null"
        await eventually(lambda: sql.fetchval(owned), until=lambda count: count == 1)
        rows = await sql.fetch("select attempts, handed_back from wakeful.ready where owner is null")
        assert [tuple(row) for row in rows] == [(0, 0)] * 4
        assert started == ids[:1]
        go_on.set()
        await all_ended(sql)
    assert sorted(map(str, started)) == sorted(map(str, ids))


async def test_the_lines_of_an_attempt_are_kept_and_bounded(db: ClonedDatabase, sql: Connection) -> None:
    async def handler(job: JobContext) -> None:
        for number in range(150):
            job.log.info("step", number=number)

    await enqueue(sql)
    async with testing.instance(db, registry=handler) as w:
        await w.run_one()
        count = "select count(*) from wakeful.job_log"
        await eventually(lambda: sql.fetchval(count), until=lambda seen: seen == 100)
    last = await sql.fetchval("select message from wakeful.job_log order by line_no desc limit 1")
    assert "149" in last


async def test_outcomes_are_told_once_each_with_the_same_fields(db: ClonedDatabase, sql: Connection) -> None:
    registry = Registry()

    @registry.job("COLLECT", backoff=lambda attempt: 60)
    async def collect(job: JobContext) -> None:
        if job.payload.get("fail"):
            raise ValueError("no")

    async with running(db, registry) as one:
        good = (await enqueue(sql)).job_id
        bad = (await enqueue(sql, payload={"fail": True})).job_id
        done = await one.recorder.seen(JOB_FINISHED, job_id=str(good))
        retried = await one.recorder.seen(JOB_RETRIED, job_id=str(bad))
        await eventually(looked(lambda: len(one.parts.holdings)), until=lambda count: count == 0)
    assert (done["outcome"], done["attempt"], done["run_no"]) == ("finished", 1, 1)
    assert (retried["error_type"], retried["error"]) == ("ValueError", "no")
    assert 48 <= float(str(retried["next_run_in"])) <= 60
    assert len(one.recorder.of(JOB_FINISHED)) == len(one.recorder.of(JOB_RETRIED)) == 1
