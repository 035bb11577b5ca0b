"""DONE in a batch: fenced by pairs of position and token, never waiting for a row, and nobody stopped by a bad one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import anyio
import pytest

from support.databases import ClonedDatabase, Connection
from support.factories import enqueue
from support.working import claimer_on, finish_of, job_row, table_of
from wakeful.core import jsontext
from wakeful.errors import DataRefused
from wakeful.store import jobs as store

EXACT = '{"id": 123456789012345678901234567890, "price": 0.10000000000000000555, "text": "né\\"\\\\"}'


async def enqueued(sql: Connection, count: int) -> list[UUID]:
    return [(await enqueue(sql)).job_id for _ in range(count)]


async def test_what_is_so_of_most_jobs_of_a_batch_holds_for_those_only(
    db: ClonedDatabase, sql: Connection
) -> None:
    await enqueued(sql, 4)
    async with claimer_on(db) as claimer:
        claimed = await claimer.claim()
        plain, with_result, not_kept, with_less = [finish_of(one) for one in claimed]
        batch = [
            plain,
            with_result._replace(result='{"a":1}'),
            not_kept._replace(keep=False),
            with_less._replace(degraded='["slow"]'),
        ]

        assert len(await store.finish(claimer.database, claimed[0].job.lane_id, batch)) == 4

    rows = await sql.fetch("select job_id, result::text, degraded from wakeful.jobs")
    kept = {row["job_id"]: (row["result"], row["degraded"]) for row in rows}
    said = [kept.get(one.job.job_id) for one in claimed]
    assert said == [("null", []), ('{"a": 1}', []), None, ("null", ["slow"])]


async def test_a_finished_job_is_done_with_its_exact_result_and_all_that_it_went_through(
    db: ClonedDatabase, sql: Connection
) -> None:
    job_id = (await enqueue(sql, payload={"a": 1}, subject="abc", tags=["t"])).job_id
    async with claimer_on(db) as claimer:
        (claimed,) = await claimer.claim()
        one = finish_of(claimed, result=EXACT)._replace(degraded='["copy provider down"]')

        assert await store.finish(claimer.database, claimed.job.lane_id, [one]) == {(one.pos, one.claim)}

        row = await job_row(sql, job_id)
        assert row["status"] == "DONE"
        assert row["result"] == jsontext.loads(EXACT)
        assert row["degraded"] == ["copy provider down"]
        assert row["instance_id"] == claimer.owner.instance_id
        assert row["started_at"] == datetime.fromtimestamp(claimed.claimed_epoch, UTC) < row["finished_at"]
        assert (row["attempts"], row["run_no"], row["subject"], row["tags"]) == (1, 1, "abc", ["t"])
        assert await table_of(sql, job_id) == ["finished"]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"tags": ["t"], "meta": {"a": 1}, "group": "g", "limit_key": "l", "subject": "s", "dedupe_key": "k"},
    ],
)
async def test_the_view_shows_of_a_finished_job_all_that_it_showed_while_it_ran(
    db: ClonedDatabase, sql: Connection, options: dict[str, Any]
) -> None:
    job_id = (await enqueue(sql, payload={"a": 1}, **options)).job_id
    async with claimer_on(db) as claimer:
        for verb in ("fail", "snooze", "hand_back", "lose") if options else ():
            await claimer.settle((await claimer.claim())[0], verb)
        (claimed,) = await claimer.claim()
        running = await job_row(sql, job_id)
        await claimer.finish(claimed)

        finished = await job_row(sql, job_id)

    ended = {"status", "lease_until", "result", "finished_at"}
    assert {name for name in running if running[name] != finished[name]} == ended - {"result"}
    assert None not in [
        finished[name] for name in ("errors", "degraded", "tags", "meta", "lost", "run_after")
    ]


async def test_a_type_without_history_leaves_no_row(db: ClonedDatabase, sql: Connection) -> None:
    job_id = (await enqueue(sql, dedupe_key="k")).job_id
    async with claimer_on(db) as claimer:
        (claimed,) = await claimer.claim()
        one = finish_of(claimed, keep=False)

        assert await store.finish(claimer.database, claimed.job.lane_id, [one]) == {(one.pos, one.claim)}

    assert await table_of(sql, job_id) == []
    assert await sql.fetchval("select wakeful.find_active('k')") is None


async def test_the_key_of_a_finished_job_is_free_and_a_key_that_is_not_its_own_is_not_touched(
    db: ClonedDatabase, sql: Connection
) -> None:
    await enqueue(sql, dedupe_key="own")
    await enqueue(sql, dedupe_key="taken over")
    stranger = (await enqueue(sql)).job_id
    async with claimer_on(db) as claimer:
        first, second, _ = await claimer.claim()
        await sql.execute("update wakeful.dedupe set job_id = $1 where key = 'taken over'", stranger)

        assert len(await claimer.finish(first, second)) == 2

    assert await sql.fetchval("select wakeful.find_active('own')") is None
    assert await sql.fetchval("select wakeful.find_active('taken over')") == stranger


@pytest.mark.case("I20")
async def test_tokens_are_matched_to_their_own_positions_not_crosswise(
    db: ClonedDatabase, sql: Connection
) -> None:
    ids = await enqueued(sql, 2)
    async with claimer_on(db) as claimer:
        (first,) = await claimer.claim(limit=1)
        (second,) = await claimer.claim(limit=1)
        swapped = [finish_of(first, claim=second.job.claim), finish_of(second, claim=first.job.claim)]

        assert await store.finish(claimer.database, first.job.lane_id, swapped) == set()

    assert [await table_of(sql, one) for one in ids] == [["ready"], ["ready"]]


async def test_a_right_pair_and_a_wrong_one_for_the_same_row_are_told_apart(
    db: ClonedDatabase, sql: Connection
) -> None:
    await enqueue(sql)
    async with claimer_on(db) as claimer:
        (claimed,) = await claimer.claim()
        right, wrong = finish_of(claimed), finish_of(claimed, claim=4711)

        both = await store.finish(claimer.database, claimed.job.lane_id, [wrong, right])

    assert both == {(right.pos, right.claim)}


async def test_finishing_somebody_elses_job_changes_nothing(db: ClonedDatabase, sql: Connection) -> None:
    job_id = (await enqueue(sql, dedupe_key="k")).job_id
    async with claimer_on(db) as claimer:
        (claimed,) = await claimer.claim()
        before = await sql.fetchrow("select * from wakeful.ready")

        assert (
            await store.finish(
                claimer.database, claimed.job.lane_id, [finish_of(claimed, claim=claimed.job.claim ^ 2)]
            )
            == set()
        )
        assert await store.finish(claimer.database, claimed.job.lane_id + 1, [finish_of(claimed)]) == set()

    assert await sql.fetchrow("select * from wakeful.ready") == before
    assert await sql.fetchval("select wakeful.find_active('k')") == job_id


@pytest.mark.case("I2")
async def test_one_row_that_somebody_has_locked_is_left_and_the_other_99_finish(
    db: ClonedDatabase, sql: Connection
) -> None:
    ids = await enqueued(sql, 100)
    async with claimer_on(db) as claimer:
        claimed = await claimer.claim()
        async with sql.transaction():
            await sql.execute("select wakeful.cancel($1)", ids[50])
            with anyio.fail_after(5):
                finished = await claimer.finish(*claimed)
            assert len(finished) == 99
        assert len(await claimer.finish(claimed[50])) == 1

    assert (await job_row(sql, ids[50]))["status"] == "DONE"


async def test_a_dedupe_key_that_somebody_has_locked_holds_up_its_own_job_only(
    db: ClonedDatabase, sql: Connection
) -> None:
    locked = (await enqueue(sql, dedupe_key="locked")).job_id
    await enqueued(sql, 10)
    async with claimer_on(db) as claimer:
        claimed = await claimer.claim()
        async with sql.transaction():
            await sql.execute("select from wakeful.dedupe where key = 'locked' for update")
            with anyio.fail_after(5):
                assert len(await claimer.finish(*claimed)) == 10
            assert await table_of(sql, locked) == ["ready"]
        assert len(await claimer.finish(claimed[0])) == 1


async def test_a_producer_that_waits_for_the_key_of_a_finishing_job_gets_a_job_of_its_own(
    db: ClonedDatabase, sql: Connection
) -> None:
    first = (await enqueue(sql, dedupe_key="k")).job_id
    async with claimer_on(db) as claimer:
        (claimed,) = await claimer.claim()
        assert not (await enqueue(sql, dedupe_key="k")).created
        await claimer.finish(claimed)
        again = await enqueue(sql, dedupe_key="k")

    assert again.created
    assert again.job_id != first


@pytest.mark.parametrize("bad", ["{not json", '"\\u0000"', '"\\ud800"', "", "1e999999999"])
async def test_a_value_that_postgresql_refuses_changes_nothing_and_says_so(
    db: ClonedDatabase, sql: Connection, bad: str
) -> None:
    ids = await enqueued(sql, 2)
    async with claimer_on(db) as claimer:
        good, broken = await claimer.claim()
        batch = [finish_of(good), finish_of(broken, result=bad)]

        with pytest.raises(DataRefused):
            await store.finish(claimer.database, good.job.lane_id, batch)
        assert [await table_of(sql, one) for one in ids] == [["ready"], ["ready"]]
        assert len(await claimer.finish(good)) == 1


async def test_json_too_deep_for_the_server_is_a_refused_value_not_an_outage(
    db: ClonedDatabase, sql: Connection
) -> None:
    await enqueue(sql)
    async with claimer_on(db) as claimer:
        (claimed,) = await claimer.claim()

        with pytest.raises(DataRefused):
            await claimer.finish(claimed, result="[" * 50_000 + "]" * 50_000)
        assert len(await claimer.finish(claimed)) == 1


async def test_a_result_of_a_mebibyte_is_stored(db: ClonedDatabase, sql: Connection) -> None:
    job_id = (await enqueue(sql)).job_id
    text = "é" * (512 * 1024 - 1)
    async with claimer_on(db) as claimer:
        (claimed,) = await claimer.claim()
        await claimer.finish(claimed, result=jsontext.dumps(text))

    assert (await job_row(sql, job_id))["result"] == text


async def test_a_job_that_finished_before_its_cancellation_reached_it_is_done(
    db: ClonedDatabase, sql: Connection
) -> None:
    job_id = (await enqueue(sql)).job_id
    async with claimer_on(db) as claimer:
        (claimed,) = await claimer.claim()
        assert await sql.fetchval("select wakeful.cancel($1)", job_id) == "RUNNING"
        assert len(await claimer.finish(claimed)) == 1

    assert (await job_row(sql, job_id))["status"] == "DONE"
    assert await sql.fetchval("select wakeful.cancel($1)", job_id) == "DONE"
