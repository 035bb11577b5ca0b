"""A row that did not come back is read by a later statement, and only a lost claim drops a result (R3, I3)."""

from __future__ import annotations

import pytest

from support.databases import ClonedDatabase, Connection
from support.factories import enqueue
from support.working import Claimer, claimer_on, finish_of, settlement_of
from wakeful.store import jobs as store
from wakeful.store.jobs import Claimed, Verb

LATER = 3600.0


async def one_job(claimer: Claimer, sql: Connection) -> Claimed:
    await enqueue(sql)
    (claimed,) = await claimer.claim()
    return claimed


async def verdict(claimer: Claimer, claimed: Claimed) -> str:
    return (await store.verdicts(claimer.database, [claimed.job]))[0]


async def test_a_claim_that_still_holds_is_mine(db: ClonedDatabase, sql: Connection) -> None:
    async with claimer_on(db) as claimer:
        claimed = await one_job(claimer, sql)

        assert await verdict(claimer, claimed) == "mine"


async def test_a_finish_whose_reply_was_lost_is_done_by_this_token(
    db: ClonedDatabase, sql: Connection
) -> None:
    async with claimer_on(db) as claimer:
        claimed = await one_job(claimer, sql)
        await claimer.finish(claimed)

        assert await claimer.finish(claimed) == set()
        assert await verdict(claimer, claimed) == "DONE"


@pytest.mark.parametrize(
    ("verb", "delay", "status"),
    [
        ("fail", 0.0, "PENDING"),
        ("fail", LATER, "PENDING"),
        ("snooze", LATER, "PENDING"),
        ("hand_back", 0.0, "PENDING"),
        ("refuse", 0.0, "DEAD"),
        ("discard", 0.0, "CANCELLED"),
    ],
)
async def test_any_end_that_this_token_wrote_is_known_by_where_the_job_went(
    db: ClonedDatabase, sql: Connection, verb: Verb, delay: float, status: str
) -> None:
    async with claimer_on(db) as claimer:
        claimed = await one_job(claimer, sql)
        await claimer.settle(claimed, verb, delay=delay)

        assert await claimer.settle(claimed, verb, delay=delay) is None
        assert await verdict(claimer, claimed) == status


async def test_the_next_claim_of_a_job_does_not_make_the_former_end_a_lost_one(
    db: ClonedDatabase, sql: Connection
) -> None:
    async with claimer_on(db) as claimer:
        claimed = await one_job(claimer, sql)
        await claimer.settle(claimed, "fail")
        (again,) = await claimer.claim()

        assert await verdict(claimer, claimed) == "PENDING"
        assert await verdict(claimer, again) == "mine"


async def test_a_job_that_a_reaper_took_is_lost_wherever_it_is_now(
    db: ClonedDatabase, sql: Connection
) -> None:
    async with claimer_on(db, name="w1") as loser, claimer_on(db, name="w2") as other:
        claimed = await one_job(loser, sql)
        await sql.execute(
            "update wakeful.instance set state = 'dead' where instance_id = $1", loser.owner.instance_id
        )
        await loser.database.fetch(
            "reclaim_jobs", claimed.job.lane_id, [claimed.job.pos], loser.owner.instance_id, None, None, 3
        )
        assert await verdict(loser, claimed) == "lost"

        (taken,) = await other.claim()
        assert await verdict(loser, claimed) == "lost"

        await other.finish(taken)
        assert await verdict(loser, claimed) == "lost"


async def test_a_job_without_history_leaves_no_trace_and_is_unknown_not_lost(
    db: ClonedDatabase, sql: Connection
) -> None:
    async with claimer_on(db) as claimer:
        claimed = await one_job(claimer, sql)
        finished = await store.finish(claimer.database, claimed.job.lane_id, [finish_of(claimed, keep=False)])

        assert finished == {(claimed.job.pos, claimed.job.claim)}
        assert await verdict(claimer, claimed) == "unknown"


async def test_verdicts_come_in_the_order_in_which_they_were_asked(
    db: ClonedDatabase, sql: Connection
) -> None:
    async with claimer_on(db) as claimer:
        for _ in range(3):
            await enqueue(sql)
        mine, done, dead = await claimer.claim()
        await claimer.finish(done)
        await claimer.settle(dead, "refuse")

        held = [dead.job, mine.job, done.job]
        assert await store.verdicts(claimer.database, held) == ["DEAD", "mine", "DONE"]


@pytest.mark.case("I3")
async def test_the_answer_of_a_statement_is_not_asked_of_its_own_snapshot(
    db: ClonedDatabase, sql: Connection
) -> None:
    """Two settlements of one claim at once: the one that comes back second finds the row gone, and is no lost lease."""
    async with claimer_on(db) as claimer:
        claimed = await one_job(claimer, sql)
        twice = [settlement_of(claimed, "fail"), settlement_of(claimed, "fail")]
        answers = [
            await store.settle(claimer.database, claimed.job.lane_id, [one], lost_limit=3) for one in twice
        ]

        assert [len(answer) for answer in answers] == [1, 0]
        assert await verdict(claimer, claimed) == "PENDING"
