"""Dedupe keys: one active job a key, a hit that names it, and a key that is free again when its job has ended."""

from __future__ import annotations

from collections import Counter

import anyio
import asyncpg
import pytest

from support.databases import ClonedDatabase, Connection, Isolation
from support.eventually import blocked
from support.factories import Enqueued, State, enqueue, job_in
from support.refusals import refused


@pytest.mark.case("F49", "F50")
@pytest.mark.parametrize("state", ["READY", "SCHEDULED", "RUNNING"])
async def test_an_active_job_holds_its_key_and_a_hit_names_it(sql: Connection, state: State) -> None:
    active = await job_in(sql, state, dedupe_key="k")

    hit = await enqueue(sql, "OTHER_TYPE", queue="other", dedupe_key="k")

    assert hit == Enqueued(active, created=False)
    assert await sql.fetchval("select count(*) from wakeful.jobs") == 1
    assert await sql.fetchval("select wakeful.find_active('k')") == active


@pytest.mark.case("F50")
@pytest.mark.parametrize("state", ["DONE", "DEAD", "CANCELLED"])
async def test_the_key_of_an_ended_job_is_free(sql: Connection, state: State) -> None:
    ended = await job_in(sql, state, dedupe_key="k")
    assert await sql.fetchval("select wakeful.find_active('k')") is None

    made = await enqueue(sql, dedupe_key="k")

    assert made.created
    assert made.job_id != ended
    assert await sql.fetchval("select wakeful.find_active('k')") == made.job_id


async def test_a_second_enqueue_in_the_same_transaction_is_a_hit(sql: Connection) -> None:
    async with sql.transaction():
        first = await enqueue(sql, dedupe_key="k")
        second = await enqueue(sql, dedupe_key="k")

    assert second == Enqueued(first.job_id, created=False)


async def test_keys_differ_by_every_character(sql: Connection) -> None:
    keys = ["k", "K", "k ", "é", "e\u0301", "k'", 'k"']

    assert all([(await enqueue(sql, dedupe_key=key)).created for key in keys])


async def test_without_a_key_nothing_is_deduplicated(sql: Connection) -> None:
    assert (await enqueue(sql)).created
    assert (await enqueue(sql)).created


async def test_a_hit_writes_nothing_and_wakes_nobody(db: ClonedDatabase, sql: Connection) -> None:
    await enqueue(sql, dedupe_key="k")
    heard: list[object] = []
    await sql.add_listener("wakeful", lambda *told: heard.append(told[3]))
    beside = await db.connect()

    await enqueue(beside, dedupe_key="k")

    await beside.execute("notify wakeful, 'end'")
    await sql.execute("select 1")
    assert heard == ["end"]
    assert await sql.fetchval("select count(*) from wakeful.lane_seen") == 1


@pytest.mark.case("F49")
async def test_the_second_enqueuer_waits_and_creates_when_the_first_rolls_back(
    db: ClonedDatabase, sql: Connection
) -> None:
    first, second = await db.connect(), await db.connect()
    gate = first.transaction()
    await gate.start()
    rolled_back = await enqueue(first, dedupe_key="k")
    results: list[Enqueued] = []

    async with anyio.create_task_group() as group:
        group.start_soon(_enqueue_into, second, results)
        assert await blocked(sql, second) == (first.get_server_pid(),)
        await gate.rollback()

    assert results[0].created
    assert results[0].job_id != rolled_back.job_id
    assert [row[0] for row in await sql.fetch("select job_id from wakeful.jobs")] == [results[0].job_id]


async def test_the_second_enqueuer_waits_and_hits_when_the_first_commits(
    db: ClonedDatabase, sql: Connection
) -> None:
    first, second = await db.connect(), await db.connect()
    gate = first.transaction()
    await gate.start()
    committed = await enqueue(first, dedupe_key="k")
    results: list[Enqueued] = []

    async with anyio.create_task_group() as group:
        group.start_soon(_enqueue_into, second, results)
        await blocked(sql, second)
        await gate.commit()

    assert results == [Enqueued(committed.job_id, created=False)]


@pytest.mark.parametrize("ends", [True, False])
async def test_an_enqueuer_waits_for_a_job_that_is_ending(
    db: ClonedDatabase, sql: Connection, ends: bool
) -> None:
    active = await job_in(sql, "READY", dedupe_key="k")
    ending, second = await db.connect(), await db.connect()
    gate = ending.transaction()
    await gate.start()
    await ending.fetchval("select wakeful.cancel($1)", active)
    results: list[Enqueued] = []

    async with anyio.create_task_group() as group:
        group.start_soon(_enqueue_into, second, results)
        await blocked(sql, second)
        await (gate.commit() if ends else gate.rollback())

    assert results[0].created is ends
    assert (results[0].job_id == active) is not ends


@pytest.mark.case("F49")
async def test_fifty_sessions_with_one_key_make_one_job(db: ClonedDatabase, sql: Connection) -> None:
    sessions = [await db.connect() for _ in range(50)]
    results: list[Enqueued] = []

    async with anyio.create_task_group() as group:
        for session in sessions:
            group.start_soon(_enqueue_into, session, results)

    assert Counter(result.created for result in results) == {True: 1, False: 49}
    assert len({result.job_id for result in results}) == 1
    assert await sql.fetchval("select count(*) from wakeful.jobs") == 1


@pytest.mark.case("F49")
@pytest.mark.parametrize("isolation", ["repeatable_read", "serializable"])
async def test_a_key_that_the_snapshot_shows_is_a_hit(sql: Connection, isolation: Isolation) -> None:
    active = await job_in(sql, "READY", dedupe_key="k")

    async with sql.transaction(isolation=isolation):
        await sql.execute("select count(*) from wakeful.jobs")
        hit = await enqueue(sql, dedupe_key="k")

    assert hit == Enqueued(active, created=False)


@pytest.mark.case("F49")
@pytest.mark.parametrize("isolation", ["repeatable_read", "serializable"])
async def test_a_key_taken_after_the_snapshot_is_a_serialization_failure(
    db: ClonedDatabase, sql: Connection, isolation: Isolation
) -> None:
    late = await db.connect()
    transaction = late.transaction(isolation=isolation)
    await transaction.start()
    await late.execute("select count(*) from wakeful.jobs")
    active = await job_in(sql, "READY", dedupe_key="k")

    with refused("40001", "could not serialize access"):
        await enqueue(late, dedupe_key="k")

    await transaction.rollback()
    async with late.transaction(isolation=isolation):
        assert await enqueue(late, dedupe_key="k") == Enqueued(active, created=False)


@pytest.mark.parametrize("isolation", ["repeatable_read", "serializable"])
async def test_a_key_freed_after_the_snapshot_is_created_anew(
    db: ClonedDatabase, sql: Connection, isolation: Isolation
) -> None:
    active = await job_in(sql, "READY", dedupe_key="k")
    late = await db.connect()
    transaction = late.transaction(isolation=isolation)
    await transaction.start()
    await late.execute("select count(*) from wakeful.jobs")
    await sql.fetchval("select wakeful.cancel($1)", active)

    made = await enqueue(late, dedupe_key="k")

    await transaction.commit()
    assert made.created
    assert await sql.fetchval("select wakeful.find_active('k')") == made.job_id


@pytest.mark.case("F49")
@pytest.mark.parametrize("isolation", ["repeatable_read", "serializable"])
async def test_fifty_that_had_read_before_make_one_job_and_the_others_hit_when_they_try_again(
    db: ClonedDatabase, sql: Connection, isolation: Isolation
) -> None:
    sessions = [await db.connect() for _ in range(50)]
    results: list[Enqueued] = []
    codes: Counter[str | None] = Counter()

    async def read_then_enqueue(session: Connection) -> None:
        try:
            await _enqueue_into(session, results)
            await session.execute("commit")
        except asyncpg.SerializationError as error:
            codes[error.sqlstate] += 1
            await session.execute("rollback")
            async with session.transaction(isolation=isolation):
                await _enqueue_into(session, results)

    for session in sessions:
        await session.execute(f"begin isolation level {isolation.replace('_', ' ')}")
        await session.execute("select count(*) from wakeful.jobs")
    async with anyio.create_task_group() as group:
        for session in sessions:
            group.start_soon(read_then_enqueue, session)

    assert codes == {"40001": 49}
    assert Counter(result.created for result in results) == {True: 1, False: 49}
    assert {result.job_id for result in results} == {await sql.fetchval("select job_id from wakeful.jobs")}


async def _enqueue_into(connection: Connection, results: list[Enqueued]) -> None:
    results.append(await enqueue(connection, dedupe_key="k"))
