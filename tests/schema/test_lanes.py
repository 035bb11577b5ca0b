"""A new lane inside a long transaction blocks nobody (I10): an enqueue needs no row of `lane` and makes none."""

from __future__ import annotations

import anyio
import pytest

from support.databases import ClonedDatabase, Connection, Isolation
from support.factories import enqueue


@pytest.mark.case("I10")
@pytest.mark.parametrize("isolation", ["read_committed", "repeatable_read", "serializable"])
async def test_a_long_transaction_with_a_new_lane_blocks_no_other_producer(
    db: ClonedDatabase, isolation: Isolation
) -> None:
    long, other, bulk = await db.connect(), await db.connect(), await db.connect()
    await long.execute("begin")
    await enqueue(long, queue="brand new")

    with anyio.fail_after(10):
        async with other.transaction(isolation=isolation):
            assert (await enqueue(other, queue="brand new")).created
        async with bulk.transaction(isolation=isolation):
            await bulk.fetch(
                """select * from wakeful.enqueue_many('[{"job_type": "COLLECT", "queue": "brand new"}]')"""
            )

    await long.execute("commit")
    assert await long.fetchval("select count(*) from wakeful.ready") == 3


@pytest.mark.case("I10")
async def test_two_producers_with_two_new_lanes_in_opposite_order_do_not_deadlock(db: ClonedDatabase) -> None:
    first, second = await db.connect(), await db.connect()
    await first.execute("begin")
    await second.execute("begin")

    with anyio.fail_after(10):
        await enqueue(first, queue="a")
        await enqueue(second, queue="b")
        await enqueue(first, queue="b")
        await enqueue(second, queue="a")
    await first.execute("commit")
    await second.execute("commit")

    assert await first.fetchval("select count(*) from wakeful.ready") == 4


async def test_an_unfolded_lane_is_noted_with_its_parts(sql: Connection) -> None:
    await enqueue(sql, "T", queue="q", priority="batch", limit_key="l")
    await sql.fetch(
        """select * from wakeful.enqueue_many('[{"job_type": "T", "queue": "q2"}, {"job_type": "T", "queue": "q2"}]')"""
    )

    seen = await sql.fetch("select * from wakeful.lane_seen order by queue")
    assert [tuple(row)[1:] for row in seen] == [
        ("q", "batch", "T", "l", False),
        ("q2", "normal", "T", None, False),
    ]
    for row in seen:
        assert row["lane_id"] == await sql.fetchval(
            "select wakeful.lane_id($1, $2, $3, $4, $5)", *tuple(row)[1:]
        )
        assert await sql.fetchval("select count(*) from wakeful.ready where lane_id = $1", row["lane_id"]) > 0


async def test_a_new_lane_is_noted_once_however_many_jobs_it_gets(sql: Connection) -> None:
    two = (
        """select * from wakeful.enqueue_many('[{"job_type": "T"}, {"job_type": "T"}, {"job_type": "U"}]')"""
    )
    async with sql.transaction():
        for _ in range(2):
            await enqueue(sql, "T")
            await sql.fetch(two)
        savepoint = sql.transaction()
        await savepoint.start()
        await enqueue(sql, "V")
        await savepoint.rollback()
        await enqueue(sql, "V")
    await enqueue(sql, "T")
    await sql.fetch(two)

    seen = [row[0] for row in await sql.fetch("select job_type from wakeful.lane_seen order by job_type")]
    assert seen == ["T", "U", "V"]


@pytest.mark.case("I7")
async def test_positions_are_taken_after_the_transaction_has_its_id(sql: Connection) -> None:
    """What the settled low water stands on (I7): who takes a position is seen as running by anyone who looks later."""
    for call in (
        "select * from wakeful.enqueue('T')",
        """select * from wakeful.enqueue_many('[{"job_type": "T"}]')""",
    ):
        async with sql.transaction():
            before = await sql.fetchval("select pg_current_xact_id_if_assigned()::text")
            await sql.fetch(call)
            after = await sql.fetchval("select pg_current_xact_id_if_assigned()::text")
            assert (before, after is not None) == (None, True)

    body = await sql.fetchval("select prosrc from pg_proc where oid = 'wakeful.enqueue'::regproc")
    assert 0 < body.index("pg_current_xact_id()") < body.index("nextval(")
    body = await sql.fetchval("select prosrc from pg_proc where oid = 'wakeful.enqueue_many'::regproc")
    assert 0 < body.index("pg_current_xact_id()") < body.index("nextval(")


async def test_an_enqueue_opens_no_subtransaction(sql: Connection) -> None:
    """Each would take a transaction id of its own; thousands of them in one transaction slow the whole server down."""
    async with sql.transaction():
        await enqueue(sql, dedupe_key="k")
        await enqueue(sql, dedupe_key="k")
        await sql.fetch(
            """select * from wakeful.enqueue_many('[{"job_type": "T", "run_after": "2030-01-01", "deadline": "1h"}]')"""
        )
        ids = await sql.fetch(
            """select xmin::text from wakeful.ready union select xmin::text from wakeful.scheduled
               union select xmin::text from wakeful.dedupe"""
        )
        assert [row[0] for row in ids] == [await sql.fetchval("select pg_current_xact_id()::text")]
