"""Progress is written by the current claim only, never over a later run, and is kept after the end."""

from __future__ import annotations

import json

import pytest

from support.databases import ClonedDatabase, Connection
from support.factories import enqueue
from support.working import Claimer, claimer_on, job_row
from wakeful.errors import DataRefused
from wakeful.store import jobs as store
from wakeful.store.jobs import Claimed
from wakeful.store.statements import statements


def document(text: str) -> str:
    return json.dumps({"attempt": 1, "steps": [], "message": text})


async def write(claimer: Claimer, *reports: tuple[Claimed, str]) -> set[int]:
    return await store.write_progress(
        claimer.database, [(claimed.job, document(text)) for claimed, text in reports]
    )


async def shown(sql: Connection, claimed: Claimed) -> object:
    progress = (await job_row(sql, claimed.job.job_id))["progress"]
    return None if progress is None else progress["message"]


async def test_the_current_claim_writes_and_overwrites(db: ClonedDatabase, sql: Connection) -> None:
    await enqueue(sql)
    async with claimer_on(db) as claimer:
        (claimed,) = await claimer.claim()
        assert await write(claimer, (claimed, "one")) == {0}
        assert await write(claimer, (claimed, "two")) == {0}

        assert await shown(sql, claimed) == "two"


async def test_the_answer_names_those_that_hold_their_job(db: ClonedDatabase, sql: Connection) -> None:
    for _ in range(3):
        await enqueue(sql)
    async with claimer_on(db) as claimer:
        first, gone, third = await claimer.claim()
        await claimer.settle(gone, "fail")

        assert await write(claimer, (third, "c"), (gone, "b"), (first, "a")) == {0, 2}
        assert [await shown(sql, one) for one in (first, gone, third)] == ["a", None, "c"]


async def test_a_former_claim_writes_nothing_over_the_current_one(
    db: ClonedDatabase, sql: Connection
) -> None:
    await enqueue(sql)
    async with claimer_on(db) as claimer:
        (former,) = await claimer.claim()
        await write(claimer, (former, "former"))
        await claimer.settle(former, "fail")
        (current,) = await claimer.claim()

        assert await shown(sql, current) is None
        assert await write(claimer, (former, "too late")) == set()
        assert await write(claimer, (current, "current")) == {0}
        assert await write(claimer, (former, "too late")) == set()
        assert await shown(sql, current) == "current"


async def test_the_token_decides_not_the_place_in_the_lane(db: ClonedDatabase, sql: Connection) -> None:
    """A position is never used twice; should a sequence go backwards in a crash, the token still tells."""
    await enqueue(sql)
    async with claimer_on(db) as claimer:
        (claimed,) = await claimer.claim()
        await sql.execute("update wakeful.ready set claim = claim # 2")

        assert await write(claimer, (claimed, "another's")) == set()
        assert await look_up(claimer, claimed) == (set(), set())


async def test_a_claim_that_was_still_right_when_it_looked_does_not_write_over_a_later_run(
    db: ClonedDatabase, sql: Connection
) -> None:
    """The row is read without a lock: what may not happen is a lower run number over a higher one."""
    await enqueue(sql)
    async with claimer_on(db) as claimer:
        (claimed,) = await claimer.claim()
        await sql.execute(
            "insert into wakeful.progress (job_id, run_no, document) values ($1, 2, $2)",
            *(claimed.job.job_id, document("later run")),
        )

        assert await write(claimer, (claimed, "earlier run")) == set()
    assert json.loads(await sql.fetchval("select document from wakeful.progress"))["message"] == "later run"


async def test_progress_is_kept_after_the_end(db: ClonedDatabase, sql: Connection) -> None:
    for _ in range(2):
        await enqueue(sql)
    async with claimer_on(db) as claimer:
        done, dead = await claimer.claim()
        await write(claimer, (done, "done"), (dead, "dead"))
        await claimer.finish(done)
        await claimer.settle(dead, "refuse")

        assert await shown(sql, done) == "done"
        assert await shown(sql, dead) == "dead"
        assert await write(claimer, (done, "too late")) == set()


async def test_progress_does_not_wait_for_the_disk(db: ClonedDatabase, sql: Connection) -> None:
    await enqueue(sql)
    async with claimer_on(db) as claimer:
        (claimed,) = await claimer.claim()
        held = [claimed.job.lane_id], [claimed.job.pos], [claimed.job.claim]
        async with sql.transaction():
            assert len(await sql.fetch(statements()["write_progress"], *held, [document("a")])) == 1
            assert await sql.fetchval("show synchronous_commit") == "off"
    assert await sql.fetchval("show synchronous_commit") == "on"


async def test_a_document_that_postgresql_refuses_is_a_refused_value(
    db: ClonedDatabase, sql: Connection
) -> None:
    await enqueue(sql)
    async with claimer_on(db) as claimer:
        (claimed,) = await claimer.claim()
        with pytest.raises(DataRefused):
            await store.write_progress(claimer.database, [(claimed.job, '"\\u0000"')])


async def test_the_held_rows_are_looked_up_by_their_claims(db: ClonedDatabase, sql: Connection) -> None:
    ids = [(await enqueue(sql)).job_id for _ in range(3)]
    async with claimer_on(db) as claimer:
        kept, lost, cancelled = await claimer.claim()
        await claimer.settle(lost, "fail")
        await sql.execute("select wakeful.cancel($1)", ids[2])
        from_store = await look_up(claimer, kept, lost, cancelled)

    assert from_store == ({0, 2}, {2})


async def look_up(claimer: Claimer, *held: Claimed) -> tuple[set[int], set[int]]:
    rows = await claimer.database.fetch(
        "look_up_held",
        [one.job.lane_id for one in held],
        [one.job.pos for one in held],
        [one.job.claim for one in held],
    )
    return {row["n"] - 1 for row in rows}, {row["n"] - 1 for row in rows if row["cancel_requested"]}
