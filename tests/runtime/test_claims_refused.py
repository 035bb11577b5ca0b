"""What the database refuses to a claimer: told, and neither its end nor that of anybody else's claims (R5)."""

from __future__ import annotations

import time

from support.claiming import claiming_of
from support.databases import ClonedDatabase, Connection
from support.factories import enqueue
from support.working import claimer_on
from wakeful.runtime.claimer import claim_round
from wakeful.runtime.marks import FULL_SECONDS, Marks, cool_while_full, mark
from wakeful.store import jobs
from wakeful.telemetry.events import CLAIM_FAILED, JOB_STRANDED


async def test_a_row_that_is_refused_stops_no_claim_of_another_lane(
    db: ClonedDatabase, sql: Connection
) -> None:
    refused = (await enqueue(sql, "COLLECT")).job_id
    for _ in range(3):
        await enqueue(sql, "AI_CHECK")
    await sql.execute(
        f"alter table wakeful.ready add constraint refused check (job_id <> '{refused}') not valid"
    )
    async with claimer_on(db) as claimer:
        claiming = claiming_of(claimer, concurrency=10)
        assert await claim_round(claiming) == 3

        (told,) = claimer.recorder.of(CLAIM_FAILED)
        assert "refused" in str(told["error"])
        assert claiming.holdings.doubts() == []


async def test_a_row_that_is_refused_again_and_again_is_told_once_and_again_after_it_was_taken(
    db: ClonedDatabase, sql: Connection
) -> None:
    await enqueue(sql, "COLLECT")
    refuse = "alter table wakeful.ready add constraint {} check (owner is null) not valid"
    async with claimer_on(db) as claimer:
        claiming = claiming_of(claimer, concurrency=10)

        async def told() -> int:
            for _ in range(3):
                await claim_round(claiming)
            return len(claimer.recorder.of(CLAIM_FAILED))

        await sql.execute(refuse.format("refused"))
        assert await told() == 1
        await sql.execute("alter table wakeful.ready drop constraint refused")
        await sql.execute(refuse.format("for_another_reason"))
        assert await told() == 2
        await sql.execute("alter table wakeful.ready drop constraint for_another_reason")
        assert await claim_round(claiming) == 1
        await enqueue(sql, "COLLECT")
        await sql.execute(refuse.format("for_another_reason"))
        assert await told() == 3


async def test_a_doubtful_claim_that_is_refused_its_return_stops_no_claim(
    db: ClonedDatabase, sql: Connection
) -> None:
    refused = (await enqueue(sql, "COLLECT")).job_id
    others = [(await enqueue(sql, "COLLECT")).job_id for _ in range(4)]
    await sql.execute("update wakeful.ready set owner = 1, claim = 4711, attempts = 1")
    await sql.execute(
        f"alter table wakeful.ready add constraint refused check (job_id <> '{refused}') not valid"
    )
    lane_id = await sql.fetchval("select min(lane_id) from wakeful.ready")
    await enqueue(sql, "COLLECT")
    async with claimer_on(db) as claimer:
        claiming = claiming_of(claimer, concurrency=10)
        claiming.holdings.doubt(lane_id, 4711, first=0, until=time.monotonic() + 120)
        assert await claim_round(claiming) == 1 + len(others)

        assert len(claimer.recorder.of(CLAIM_FAILED)) == 1
        (stranded,) = claimer.recorder.of(JOB_STRANDED)
        assert stranded["row"] == str(refused)
        assert claiming.holdings.knows(refused, 4711)


async def test_a_mark_that_is_refused_is_told_and_ends_nothing(db: ClonedDatabase, sql: Connection) -> None:
    await enqueue(sql)
    async with claimer_on(db) as claimer:
        (lane,) = await claimer.lanes()
        await jobs.mark_hot(claimer.database, [lane])
        await sql.execute(
            "update wakeful.lane set hot_until = clock_timestamp() + interval '500 milliseconds'"
        )
        await sql.execute("alter table wakeful.lane add constraint refused check (false) not valid")
        marks = Marks(busy={lane.lane_id: lane})
        await mark(marks, claimer.database)
        assert len(claimer.recorder.of(CLAIM_FAILED)) == 1

        await sql.execute("alter table wakeful.lane drop constraint refused")
        await sql.execute("update wakeful.lane set hot_until = clock_timestamp() + interval '1 hour'")
        await sql.execute("alter table wakeful.lane add constraint refused check (false) not valid")
        marks.full_since = time.monotonic() - FULL_SECONDS
        await cool_while_full(marks, claimer.database)
        assert len(claimer.recorder.of(CLAIM_FAILED)) == 2
        assert marks.in_force() == []
