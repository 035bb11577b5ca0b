"""Bulk calls beside others: overlapping keys in opposite order, keys that come and go while the call waits."""

from __future__ import annotations

import json

import anyio
import asyncpg
import pytest

from support.databases import ClonedDatabase, Connection, Isolation
from support.eventually import blocked
from support.factories import enqueue
from support.refusals import refused


async def test_two_bulk_calls_with_the_same_keys_in_opposite_order_do_not_deadlock(
    db: ClonedDatabase, sql: Connection
) -> None:
    keys = [f"k{n:03}" for n in range(200)]
    first, second = await db.connect(), await db.connect()
    # Somebody holds a key in the middle, so that both calls are under way at the same time.
    holder = await db.connect()
    gate = holder.transaction()
    await gate.start()
    await enqueue(holder, dedupe_key="k100")
    answers: dict[str, list[asyncpg.Record]] = {}

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(_enqueue_keys, first, keys, answers, "first")
            await blocked(sql, first)
            group.start_soon(_enqueue_keys, second, keys[::-1], answers, "second")
            await blocked(sql, second)
            await gate.rollback()

    made = [sum(answer["created"] for answer in answers[name]) for name in ("first", "second")]
    assert sorted(made) == [0, 200]
    assert await sql.fetchval("select count(*) from wakeful.jobs") == 200


async def test_a_key_whose_holder_commits_while_the_call_waits_is_a_hit(
    db: ClonedDatabase, sql: Connection
) -> None:
    holder, bulk = await db.connect(), await db.connect()
    gate = holder.transaction()
    await gate.start()
    active = await enqueue(holder, dedupe_key="k1")
    answers: dict[str, list[asyncpg.Record]] = {}

    async with anyio.create_task_group() as group:
        group.start_soon(_enqueue_keys, bulk, ["k0", "k1", "k1", "k2"], answers, "bulk")
        await blocked(sql, bulk)
        await gate.commit()

    found = answers["bulk"]
    assert [answer["ordinal"] for answer in found] == [1, 2, 3, 4]
    assert [answer["created"] for answer in found] == [True, False, False, True]
    assert found[1]["job_id"] == found[2]["job_id"] == active.job_id


async def test_a_key_whose_holder_comes_and_goes_while_the_call_waits_is_created_once(
    db: ClonedDatabase, sql: Connection
) -> None:
    holder, second, bulk = await db.connect(), await db.connect(), await db.connect()
    gate, later = holder.transaction(), second.transaction()
    await gate.start()
    active = await enqueue(holder, dedupe_key="k1")
    await later.start()
    await enqueue(second, dedupe_key="k2")
    answers: dict[str, list[asyncpg.Record]] = {}

    async with anyio.create_task_group() as group:
        group.start_soon(_enqueue_keys, bulk, ["k1", "k1", "k2"], answers, "bulk")
        await blocked(sql, bulk, by=holder)
        await gate.commit()
        await blocked(sql, bulk, by=second)
        # The call has passed k1 as a hit and waits for k2, when k1's job is cancelled.
        await sql.fetchval("select wakeful.cancel($1)", active.job_id)
        await later.rollback()

    found = answers["bulk"]
    assert [answer["created"] for answer in found] == [True, False, True]
    assert found[0]["job_id"] == found[1]["job_id"] != active.job_id
    assert json.loads(
        await sql.fetchval("select payload from wakeful.jobs where job_id = $1", found[0]["job_id"])
    ) == {"n": 0}


async def test_a_bulk_call_whose_key_was_taken_after_its_snapshot_is_a_serialization_failure(
    db: ClonedDatabase, sql: Connection
) -> None:
    async with sql.transaction(isolation="repeatable_read"):
        await sql.execute("select count(*) from wakeful.jobs")
        await enqueue(await db.connect(), dedupe_key="k")
        with refused("40001", "could not serialize access"):
            async with sql.transaction():
                await sql.fetch(
                    """select * from wakeful.enqueue_many('[{"job_type": "T", "dedupe_key": "k"}]')"""
                )


@pytest.mark.parametrize("isolation", ["read_committed", "repeatable_read", "serializable"])
async def test_bulk_calls_with_different_keys_never_wait(
    db: ClonedDatabase, sql: Connection, isolation: Isolation
) -> None:
    other = await db.connect()
    answers: dict[str, list[asyncpg.Record]] = {}
    async with sql.transaction(isolation=isolation):
        await _enqueue_keys(sql, ["a", "b"], answers, "one")
        with anyio.fail_after(10):
            await _enqueue_keys(other, ["c", "d"], answers, "other")

    assert all(answer["created"] for answer in [*answers["one"], *answers["other"]])


async def _enqueue_keys(
    connection: Connection, keys: list[str], answers: dict[str, list[asyncpg.Record]], name: str
) -> None:
    jobs = [{"job_type": "COLLECT", "payload": {"n": n}, "dedupe_key": key} for n, key in enumerate(keys)]
    answers[name] = list(await connection.fetch("select * from wakeful.enqueue_many($1)", json.dumps(jobs)))
