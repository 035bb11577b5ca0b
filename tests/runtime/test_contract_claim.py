"""The contract, rows "enqueue, claim", "one owner", "ownership", "dedupe" and "requeue", on a real database."""

from __future__ import annotations

from contextlib import AsyncExitStack

import anyio
import pytest

from support.databases import ClonedDatabase, Connection
from support.factories import enqueue, status_of
from support.working import job_row, ready_row, table_of
from wakeful import testing
from wakeful.core import jsontext
from wakeful.core.job import Job

EXACT = '{"id": 123456789012345678901234567890, "price": 0.1000000000000000055, "né": [null, true, {}]}'


async def test_a_claim_turns_a_pending_job_running_and_hands_over_an_equal_payload(
    db: ClonedDatabase, sql: Connection
) -> None:
    job_id = (await enqueue(sql, "COLLECT", EXACT)).job_id
    async with testing.instance(db, name="w1") as w:
        job = await w.claim()

        assert job is not None
        assert (job.job_id, job.job_type, job.attempts) == (job_id, "COLLECT", 1)
        assert job.payload == jsontext.loads(EXACT)
        row = await job_row(sql, job_id)
        assert (row["status"], row["attempts"], row["instance_id"]) == ("RUNNING", 1, w.instance_id)
        assert (await ready_row(sql, job_id))["claim"] == job.claim


async def test_five_instances_that_race_for_one_job_give_one(db: ClonedDatabase, sql: Connection) -> None:
    async with AsyncExitStack() as stack:
        fleet = [
            await stack.enter_async_context(testing.instance(db, name=f"w{number}")) for number in range(5)
        ]
        for _ in range(10):
            job_id = (await enqueue(sql)).job_id
            won: list[Job] = []

            async def race(w: testing.Instance, won: list[Job] = won) -> None:
                job = await w.claim()
                won.extend([] if job is None else [job])

            async with anyio.create_task_group() as group:
                for w in fleet:
                    group.start_soon(race, w)
            assert [job.job_id for job in won] == [job_id]


async def test_an_empty_queue_gives_none(db: ClonedDatabase) -> None:
    async with testing.instance(db) as w:
        assert await w.claim() is None
        assert not await w.run_one()


async def test_finishing_somebody_elses_job_changes_nothing_and_gives_false(
    db: ClonedDatabase, sql: Connection
) -> None:
    job_id = (await enqueue(sql)).job_id
    async with testing.instance(db, name="w1") as w1, testing.instance(db, name="w2") as w2:
        job = await w1.claim()
        assert job is not None
        stolen = job._replace(claim=job.claim ^ 2)
        before = await ready_row(sql, job_id)

        assert await w2.finish(stolen, {"stolen": True}) is False
        assert await w2.fail(stolen, "no") is False
        assert await w2.set_progress(stolen, {"stolen": True}) is False
        assert await ready_row(sql, job_id) == before
        assert await w1.finish(job) is True


async def test_finishing_ones_own_job_after_losing_it_changes_nothing_and_gives_false(
    db: ClonedDatabase, sql: Connection
) -> None:
    job_id = (await enqueue(sql)).job_id
    async with testing.instance(db, name="w1") as w1, testing.instance(db, name="w2") as w2:
        former = await w1.claim()
        assert former is not None
        await testing.expire_lease(db, w1)
        assert [one.job_id for one in await testing.reap(db)] == [job_id]

        waiting = await ready_row(sql, job_id)
        assert await w1.finish(former, 1) is False
        assert await w1.fail(former, "no") is False
        assert await ready_row(sql, job_id) == waiting

        current = await w2.claim()
        assert current is not None
        assert await w1.finish(former, 1) is False
        assert await w1.set_progress(former, {"late": True}) is False
        assert await w2.finish(current, 2) is True
        assert await w1.fail(former, "no") is False

    row = await job_row(sql, job_id)
    assert (row["status"], row["result"], row["lost"]) == ("DONE", 2, 1)


async def test_a_job_that_was_failed_is_not_finished_afterwards(db: ClonedDatabase, sql: Connection) -> None:
    job_id = (await enqueue(sql)).job_id
    async with testing.instance(db) as w:
        job = await w.claim()
        assert job is not None
        assert await w.fail(job, "no", delay=60) == "PENDING"

        assert await w.finish(job) is False
        assert await w.set_progress(job, {}) is False
    assert await table_of(sql, job_id) == ["scheduled"]


async def test_a_finish_that_is_said_twice_is_one(db: ClonedDatabase, sql: Connection) -> None:
    job_id = (await enqueue(sql)).job_id
    async with testing.instance(db) as w:
        job = await w.claim()
        assert job is not None
        assert await w.finish(job, 1) is True
        assert await w.finish(job, 2) is True

    assert (await job_row(sql, job_id))["result"] == 1


@pytest.mark.parametrize("end", ["done", "dead", "cancelled"])
async def test_a_dedupe_key_is_held_while_the_job_is_active_and_free_once_it_has_ended(
    db: ClonedDatabase, sql: Connection, end: str
) -> None:
    first = await enqueue(sql, dedupe_key="k", max_attempts=2)
    async with testing.instance(db) as w:
        assert (await enqueue(sql, dedupe_key="k")).job_id == first.job_id
        job = await w.claim()
        assert job is not None
        assert await w.fail(job, "again") == "PENDING"
        assert not (await enqueue(sql, dedupe_key="k")).created

        job = await w.claim()
        assert job is not None
        if end == "cancelled":
            await sql.fetchval("select wakeful.cancel($1)", first.job_id)
        assert await (w.finish(job) if end == "done" else w.fail(job, "the end"))

    again = await enqueue(sql, dedupe_key="k")
    assert again.created
    assert again.job_id != first.job_id


async def test_a_requeued_job_starts_over_and_only_a_dead_or_cancelled_one_is(
    db: ClonedDatabase, sql: Connection
) -> None:
    job_id = (await enqueue(sql, max_attempts=1)).job_id
    async with testing.instance(db) as w:
        assert await sql.fetchval("select wakeful.requeue($1)", job_id) is None
        job = await w.claim()
        assert job is not None
        assert await sql.fetchval("select wakeful.requeue($1)", job_id) is None
        assert await w.fail(job, "no") == "DEAD"

        assert await sql.fetchval("select wakeful.requeue($1)", job_id) == job_id
        row = await job_row(sql, job_id)
        assert (row["status"], row["attempts"], row["run_no"]) == ("PENDING", 0, 1)
        again = await w.claim()
        assert again is not None
        assert (again.attempts, again.run_no) == (1, 2)
        assert await w.finish(again)
        assert await sql.fetchval("select wakeful.requeue($1)", job_id) is None
    assert await status_of(sql, job_id) == "DONE"


async def test_jobs_are_claimed_by_priority_and_within_one_in_their_order(
    db: ClonedDatabase, sql: Connection
) -> None:
    for name in ("batch", "normal", "interactive"):
        for number in (1, 2):
            await enqueue(sql, "T", {"name": f"{name} {number}"}, priority=name)
    names = []
    async with testing.instance(db) as w:
        while (job := await w.claim()) is not None:
            assert isinstance(job.payload, dict)
            names.append(job.payload["name"])

    assert names[0] == "interactive 1"
    for priority in ("batch", "normal", "interactive"):
        assert names.index(f"{priority} 1") < names.index(f"{priority} 2")


async def test_a_queue_that_exists_only_in_the_database_is_served_and_a_paused_one_is_not(
    db: ClonedDatabase, sql: Connection
) -> None:
    await enqueue(sql, queue="made up a moment ago")
    async with testing.instance(db) as w:
        await sql.execute("select wakeful.pause('made up a moment ago')")
        assert await w.claim() is None
        await sql.execute("select wakeful.resume('made up a moment ago')")
        assert await w.claim() is not None
