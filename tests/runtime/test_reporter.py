"""The reporter: reports of many handlers in one statement, an answer for each, and a bad one costs itself only."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import anyio
import pytest

from support.databases import ClonedDatabase, Connection
from support.eventually import eventually
from support.factories import enqueue
from support.proxy import Mode, Proxy
from support.working import Claimer, claimer_on, held, job_row
from wakeful.errors import StoreUnavailable
from wakeful.runtime.holdings import Holding
from wakeful.runtime.reporter import LogLine, Reporter

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@asynccontextmanager
async def desk(db: ClonedDatabase | str, *, run: bool = True) -> AsyncIterator[tuple[Reporter, Claimer]]:
    async with claimer_on(db) as claimer:
        reporter, stop = Reporter(claimer.database), anyio.Event()
        async with anyio.create_task_group() as group:
            if run:
                group.start_soon(reporter.run, stop)
            yield reporter, claimer
            stop.set()


async def holdings(sql: Connection, claimer: Claimer, count: int) -> list[Holding]:
    for _ in range(count):
        await enqueue(sql)
    return [held(one) for one in await claimer.claim()]


def document(text: str) -> str:
    return json.dumps({"attempt": 1, "steps": [], "text": text})


def lines(holding: Holding, *texts: str) -> list[LogLine]:
    job = holding.job
    return [(job.job_id, job.run_no, number, NOW, "info", text) for number, text in enumerate(texts, 1)]


async def test_a_write_comes_back_when_it_is_committed(db: ClonedDatabase, sql: Connection) -> None:
    async with desk(db) as (reporter, claimer):
        (holding,) = await holdings(sql, claimer, 1)
        assert await reporter.write(holding, document("one")) is True
        assert (await job_row(sql, holding.job_id))["progress"]["text"] == "one"


async def test_writes_of_many_go_together_and_each_gets_its_own_answer(
    db: ClonedDatabase, sql: Connection
) -> None:
    async with desk(db) as (reporter, claimer):
        held_ones = await holdings(sql, claimer, 30)
        await sql.execute("delete from wakeful.ready where job_id = $1", held_ones[7].job_id)
        answers = {}

        async def write(holding: Holding) -> None:
            answers[holding.job_id] = await reporter.write(holding, document("x"))

        async with anyio.create_task_group() as group:
            for holding in held_ones:
                group.start_soon(write, holding)
        assert [answers[one.job_id] for one in held_ones] == [number != 7 for number in range(30)]
        assert await sql.fetchval("select count(*) from wakeful.progress") == 29
        assert await sql.fetchval("select count(distinct xmin::text) from wakeful.progress") <= 2


async def test_two_writes_of_one_job_come_in_their_order(db: ClonedDatabase, sql: Connection) -> None:
    async with desk(db) as (reporter, claimer):
        (holding,) = await holdings(sql, claimer, 1)
        async with anyio.create_task_group() as group:
            for number in range(10):
                group.start_soon(reporter.write, holding, document(f"no {number}"))
        assert (await job_row(sql, holding.job_id))["progress"]["text"] == "no 9"


async def test_a_handler_that_is_cancelled_cuts_no_write_in_two(db: ClonedDatabase, sql: Connection) -> None:
    async with desk(db) as (reporter, claimer):
        (holding,) = await holdings(sql, claimer, 1)
        locker = await db.connect()
        async with locker.transaction():
            await locker.execute("lock table wakeful.progress in access exclusive mode")
            async with anyio.create_task_group() as group:
                group.start_soon(reporter.write, holding, document("written all the same"))
                await waits_for_lock(sql)
                group.cancel_scope.cancel()
        text = "select document ->> 'text' from wakeful.progress"
        assert await eventually(lambda: sql.fetchval(text)) == "written all the same"


async def waits_for_lock(sql: Connection) -> None:
    await eventually(
        lambda: sql.fetchval(
            """select exists (select from pg_stat_activity
                              where wait_event_type = 'Lock' and datname = current_database())"""
        )
    )


async def test_a_document_that_is_refused_costs_itself_only(db: ClonedDatabase, sql: Connection) -> None:
    async with desk(db) as (reporter, claimer):
        bad, good = await holdings(sql, claimer, 2)
        answers = []

        async def write(holding: Holding, text: str) -> None:
            answers.append(await reporter.write(holding, text))

        async with anyio.create_task_group() as group:
            group.start_soon(write, bad, '"\\u0000"')
            group.start_soon(write, good, document("well"))
        assert answers == [True, True]  # the claim holds for all we know: the handler may go on
        assert (await job_row(sql, good.job_id))["progress"]["text"] == "well"
        assert (await job_row(sql, bad.job_id))["progress"] is None


async def test_log_lines_are_stored_in_order_and_a_bad_one_costs_itself_only(
    db: ClonedDatabase, sql: Connection
) -> None:
    async with desk(db) as (reporter, claimer):
        one, two = await holdings(sql, claimer, 2)
        reporter.log([*lines(one, "a", "b\x00", "c"), *lines(two, "d")])
        count = "select count(*) from wakeful.job_log"
        await eventually(lambda: sql.fetchval(count), until=lambda seen: seen == 4)
        rows = await sql.fetch(
            "select message from wakeful.job_log where job_id = $1 order by line_no", one.job_id
        )
    assert [row["message"] for row in rows] == ["a", "(a line that could not be stored)", "c"]


async def test_an_outage_is_told_to_whoever_waits_and_lines_are_kept(
    db: ClonedDatabase, sql: Connection, proxy: Proxy
) -> None:
    async with desk(proxy.dsn(db.name)) as (reporter, claimer):
        (holding,) = await holdings(sql, claimer, 1)
        proxy.set(Mode.REFUSE)
        proxy.reset()
        reporter.log(lines(holding, "kept"))
        with pytest.raises(StoreUnavailable):
            await reporter.write(holding, document("lost"))
        proxy.set(Mode.PASS)
        count = "select count(*) from wakeful.job_log"
        await eventually(lambda: sql.fetchval(count), until=lambda seen: seen == 1)
        assert await reporter.write(holding, document("again")) is True


async def test_what_is_left_at_the_stop_is_written_once_more(db: ClonedDatabase, sql: Connection) -> None:
    async with desk(db, run=False) as (reporter, claimer):
        (holding,) = await holdings(sql, claimer, 1)
        reporter.log(lines(holding, "the last words"))
        stop = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(reporter.write, holding, document("the last step"))
            group.start_soon(reporter.run, stop)
            await anyio.wait_all_tasks_blocked()
            stop.set()
    assert await sql.fetchval("select message from wakeful.job_log") == "the last words"
    assert await sql.fetchval("select document ->> 'text' from wakeful.progress") == "the last step"


async def test_it_ends_though_the_database_is_away(db: ClonedDatabase, sql: Connection, proxy: Proxy) -> None:
    async with desk(proxy.dsn(db.name), run=False) as (reporter, claimer):
        (holding,) = await holdings(sql, claimer, 1)
        proxy.set(Mode.REFUSE)
        proxy.reset()
        reporter.log(lines(holding, "nobody takes it"))
        stop = anyio.Event()
        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(reporter.run, stop)
                await anyio.wait_all_tasks_blocked()
                stop.set()
        proxy.set(Mode.PASS)


async def test_at_its_end_nobody_is_left_waiting(db: ClonedDatabase, sql: Connection, proxy: Proxy) -> None:
    async with desk(proxy.dsn(db.name), run=False) as (reporter, claimer):
        (holding,) = await holdings(sql, claimer, 1)
        proxy.set(Mode.REFUSE)
        proxy.reset()
        stop, told = anyio.Event(), []

        async def write() -> None:
            with pytest.raises(StoreUnavailable):
                await reporter.write(holding, document("too late"))
            told.append(True)

        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                for _ in range(2):  # the second waits behind the first, since they are of one job
                    group.start_soon(write)
                group.start_soon(reporter.run, stop)
                stop.set()
            await write()
        assert told == [True] * 3
        proxy.set(Mode.PASS)
