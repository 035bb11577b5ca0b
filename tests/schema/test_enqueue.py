"""wakeful.enqueue(): what it writes, where its defaults come from, and that it lives in its caller's transaction."""

from __future__ import annotations

import json
from datetime import timedelta

import asyncpg
import pytest

from support.databases import ClonedDatabase, Connection
from support.factories import declare, enqueue


async def test_the_shortest_call_gives_a_job_with_the_defaults(sql: Connection) -> None:
    row = await sql.fetchrow("select * from wakeful.enqueue('COLLECT')")

    assert row is not None
    assert row["created"] is True
    job = await sql.fetchrow("select * from wakeful.jobs")
    assert job is not None
    assert job["job_id"] == row["job_id"]
    assert {
        name: job[name] for name in ("job_type", "status", "queue", "priority", "payload", "meta", "tags")
    } == {
        "job_type": "COLLECT",
        "status": "PENDING",
        "queue": "default",
        "priority": "normal",
        "payload": "{}",
        "meta": "{}",
        "tags": [],
    }
    assert (job["attempts"], job["max_attempts"], job["run_no"]) == (0, 5, 0)
    assert job["subject"] is job["dedupe_key"] is job["last_error"] is job["result"] is None


async def test_every_option_is_kept(sql: Connection) -> None:
    made = await enqueue(
        sql,
        'O\'Brien "type"',
        {"place_id": "p1"},
        queue="mail; drop schema wakeful",
        priority="batch",
        subject="a 'subject'",
        dedupe_key='key "1"',
        max_attempts=1000,
        deadline=timedelta(days=30),
        tags=["a", "b'c"],
        meta={"traceparent": "00-1"},
        group="tenant 1",
        limit_key="llm",
    )

    row = await sql.fetchrow("select * from wakeful.ready where job_id = $1", made.job_id)
    assert row is not None
    kept = {
        name: row[name] for name in ("job_type", "queue", "priority", "subject", "dedupe_key", "max_attempts")
    }
    assert kept == {
        "job_type": 'O\'Brien "type"',
        "queue": "mail; drop schema wakeful",
        "priority": "batch",
        "subject": "a 'subject'",
        "dedupe_key": 'key "1"',
        "max_attempts": 1000,
    }
    assert (row["deadline"], row["tags"]) == (timedelta(days=30), ["a", "b'c"])
    assert (row["group_key"], row["limit_key"]) == ("tenant 1", "llm")
    assert (json.loads(row["payload"]), json.loads(row["meta"])) == (
        {"place_id": "p1"},
        {"traceparent": "00-1"},
    )
    assert row["lane_id"] == await sql.fetchval(
        "select wakeful.lane_id($1, 'batch', $2, 'llm', false)", row["queue"], row["job_type"]
    )


async def test_a_declared_type_gives_the_defaults(sql: Connection) -> None:
    await declare(
        sql,
        "COLLECT",
        queue="crawl",
        priority="interactive",
        max_attempts=2,
        deadline=timedelta(minutes=10),
        subject_path="shop.id",
        limit_key="web",
    )

    await enqueue(sql, "COLLECT", {"shop": {"id": "s1"}, "subject": "other"})

    row = await sql.fetchrow("select * from wakeful.ready")
    assert row is not None
    assert (row["queue"], row["priority"], row["max_attempts"]) == ("crawl", "interactive", 2)
    assert (row["deadline"], row["subject"], row["limit_key"]) == (timedelta(minutes=10), "s1", "web")


async def test_an_option_goes_before_the_declared_default(sql: Connection) -> None:
    await declare(
        sql,
        "COLLECT",
        queue="crawl",
        priority="interactive",
        max_attempts=2,
        subject_path="a",
        limit_key="web",
    )

    await enqueue(
        sql,
        "COLLECT",
        {"a": "declared"},
        queue="other",
        priority="batch",
        max_attempts=7,
        deadline=timedelta(seconds=1),
        subject="given",
        limit_key="mine",
    )

    row = await sql.fetchrow("select * from wakeful.ready")
    assert row is not None
    assert (row["queue"], row["priority"], row["max_attempts"]) == ("other", "batch", 7)
    assert (row["deadline"], row["subject"], row["limit_key"]) == (timedelta(seconds=1), "given", "mine")


async def test_jobs_of_one_lane_keep_the_order_of_their_enqueues(sql: Connection) -> None:
    made = [(await enqueue(sql)).job_id for _ in range(5)]

    found = await sql.fetch("select job_id from wakeful.ready order by lane_id, pos")

    assert [row["job_id"] for row in found] == made


@pytest.mark.case("F51")
async def test_a_rollback_takes_the_job_back(db: ClonedDatabase, sql: Connection) -> None:
    beside = await db.connect()
    transaction = sql.transaction()
    await transaction.start()
    await enqueue(sql, dedupe_key="k")

    assert await beside.fetchval("select count(*) from wakeful.jobs") == 0
    await transaction.rollback()

    assert await beside.fetchval("select count(*) from wakeful.jobs") == 0
    assert await beside.fetchval("select wakeful.find_active('k')") is None


@pytest.mark.case("F51")
async def test_a_savepoint_takes_back_its_own_jobs_only(sql: Connection) -> None:
    async with sql.transaction():
        kept = await enqueue(sql, dedupe_key="kept")
        savepoint = sql.transaction()
        await savepoint.start()
        await enqueue(sql, dedupe_key="gone")
        await savepoint.rollback()
        again = await enqueue(sql, dedupe_key="gone")

    found = await sql.fetch("select job_id from wakeful.jobs order by job_id")
    assert [row["job_id"] for row in found] == [kept.job_id, again.job_id]
    assert again.created


@pytest.mark.case("F51")
async def test_a_refusal_inside_a_savepoint_leaves_the_producers_transaction_usable(sql: Connection) -> None:
    await sql.execute("create table orders (id int)")
    async with sql.transaction():
        await sql.execute("insert into orders values (1)")
        with pytest.raises(asyncpg.PostgresError, match="unknown priority"):
            async with sql.transaction():
                await enqueue(sql, priority="urgent")
        await enqueue(sql, priority="interactive")

    assert await sql.fetchval("select count(*) from orders") == 1
    assert await sql.fetchval("select count(*) from wakeful.jobs") == 1


@pytest.mark.case("F51")
async def test_a_producer_that_dies_before_its_commit_leaves_nothing(
    db: ClonedDatabase, sql: Connection
) -> None:
    dying = await db.connect()
    await dying.execute("begin")
    await enqueue(dying, dedupe_key="k")

    await sql.fetchval("select pg_terminate_backend($1, 5000)", dying.get_server_pid())

    assert await sql.fetchval("select count(*) from wakeful.jobs") == 0
    assert (await enqueue(sql, dedupe_key="k")).created


async def test_enqueue_works_in_a_set_based_statement(sql: Connection) -> None:
    await sql.execute(
        "create table shop (id text); insert into shop select 's' || n from generate_series(1, 50) n"
    )

    await sql.execute(
        """select e.* from shop s
           cross join lateral wakeful.enqueue('COLLECT', jsonb_build_object('place_id', s.id)) as e"""
    )

    assert (
        await sql.fetchval("select count(distinct subject) from wakeful.jobs where subject like 's%'") == 50
    )


async def test_enqueue_works_in_a_trigger_of_the_producers(sql: Connection) -> None:
    await sql.execute(
        """create table shop (id text);
           create function shop_made() returns trigger language plpgsql as $$
           begin
               perform wakeful.enqueue('COLLECT', jsonb_build_object('place_id', new.id));
               return new;
           end $$;
           create trigger shop_made after insert on shop for each row execute function shop_made();
           insert into shop values ('s1')"""
    )

    assert await sql.fetchval("select subject from wakeful.jobs") == "s1"
