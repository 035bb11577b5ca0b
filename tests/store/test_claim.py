"""A claim: what it does to a row, whom it lets claim, and what it never waits for."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import anyio
import pytest

from support.databases import ClonedDatabase, Connection
from support.eventually import eventually
from support.factories import enqueue, job_in
from support.working import claimer_on, job_row, ready_row
from wakeful.core import jsontext
from wakeful.runtime.lease import new_token
from wakeful.store import jobs as store
from wakeful.store.jobs import Claimed
from wakeful.store.statements import statements

EXACT = '{"id": 123456789012345678901234567890, "price": 0.10000000000000000555, "rate": 1e400, "né": [null, true, {}]}'


async def test_a_claim_makes_a_waiting_job_running_and_counts_its_attempt(
    db: ClonedDatabase, sql: Connection
) -> None:
    job_id = (await enqueue(sql, deadline=timedelta(minutes=7))).job_id
    async with claimer_on(db) as claimer:
        (claimed,) = await claimer.claim()

        row = await ready_row(sql, job_id)
        assert (row["owner"], row["claim"]) == (claimer.owner.instance_id, claimed.job.claim)
        assert (row["attempts"], row["run_no"]) == (claimed.job.attempts, claimed.job.run_no) == (1, 1)
        assert row["started_at"] == datetime.fromtimestamp(claimed.claimed_epoch, UTC)
        # The clock is read twice, perhaps with a microsecond between.
        assert (
            timedelta(minutes=7) <= row["deadline_at"] - row["started_at"] < timedelta(minutes=7, seconds=1)
        )
        assert claimed.job.deadline == 420.0
        assert (await job_row(sql, job_id))["status"] == "RUNNING"
        assert 0 < claimed.job.claim < 2**63


async def test_a_claim_hands_over_an_equal_payload_with_exact_numbers(
    db: ClonedDatabase, sql: Connection
) -> None:
    await enqueue(sql, payload=EXACT, tags=["a", "b"], meta={"traceparent": "00-1"}, subject="abc")
    async with claimer_on(db) as claimer:
        (claimed,) = await claimer.claim()

    assert claimed.job.payload == jsontext.loads(EXACT)
    assert claimed.job.tags == ("a", "b")
    assert json.loads(claimed.job.meta_text) == {"traceparent": "00-1"}
    assert claimed.job.subject == "abc"


async def test_jobs_of_a_lane_are_claimed_in_the_order_in_which_they_came_and_no_more_than_asked_for(
    db: ClonedDatabase, sql: Connection
) -> None:
    ids = [(await enqueue(sql)).job_id for _ in range(5)]
    async with claimer_on(db) as claimer:
        first = await claimer.claim(limit=3)
        rest = await claimer.claim(limit=3)

    assert [one.job.job_id for one in first] == ids[:3]
    assert [one.job.job_id for one in rest] == ids[3:]


async def test_a_claim_names_one_lane_and_leaves_the_others_alone(
    db: ClonedDatabase, sql: Connection
) -> None:
    await enqueue(sql, "A")
    other = (await enqueue(sql, "B")).job_id
    async with claimer_on(db) as claimer:
        lane = next(one for one in await claimer.lanes() if one.job_type == "A")
        assert len(await claimer.claim(lane=lane.lane_id)) == 1

    assert (await ready_row(sql, other))["owner"] is None


async def test_an_empty_queue_gives_none(db: ClonedDatabase) -> None:
    async with claimer_on(db) as claimer:
        assert await claimer.lanes() == []
        assert await claimer.claim(lane=4711) == []


@pytest.mark.parametrize("round_number", range(5))
async def test_of_five_claimers_that_race_for_one_job_exactly_one_gets_it(
    db: ClonedDatabase, sql: Connection, round_number: int
) -> None:
    await enqueue(sql)
    async with claimer_on(db, connections=5) as claimer:
        (lane,) = await claimer.lanes()
        won: list[Claimed] = []

        async def race() -> None:
            won.extend(await claimer.claim(lane=lane.lane_id))

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(race)

    assert len(won) == 1


async def test_twenty_claimers_share_two_hundred_jobs_and_none_is_claimed_twice(
    db: ClonedDatabase, sql: Connection
) -> None:
    for number in range(200):
        await enqueue(sql, payload={"n": number})
    async with claimer_on(db, connections=20) as claimer:
        (lane,) = await claimer.lanes()
        won: list[Claimed] = []

        async def race() -> None:
            while claimed := await claimer.claim(limit=3, lane=lane.lane_id):
                won.extend(claimed)

        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(race)

    assert sorted(json.loads(one.job.payload_text)["n"] for one in won) == list(range(200))


async def test_a_row_that_somebody_has_locked_is_stepped_over_not_waited_for(
    db: ClonedDatabase, sql: Connection
) -> None:
    locked, free = (await enqueue(sql)).job_id, (await enqueue(sql)).job_id
    async with claimer_on(db) as claimer, sql.transaction():
        await sql.execute("select from wakeful.ready where job_id = $1 for update", locked)
        with anyio.fail_after(30):
            claimed = await claimer.claim()

    assert [one.job.job_id for one in claimed] == [free]


@pytest.mark.parametrize(
    "lost",
    [
        "update wakeful.instance set state = 'dead'",
        "update wakeful.instance set state = 'draining'",
        "update wakeful.instance set incarnation = incarnation + 1",
        "delete from wakeful.instance",
    ],
)
async def test_only_a_live_instance_of_this_incarnation_claims(
    db: ClonedDatabase, sql: Connection, lost: str
) -> None:
    job_id = (await enqueue(sql)).job_id
    async with claimer_on(db) as claimer:
        await sql.execute(lost)

        assert await claimer.claim() == []
    assert (await ready_row(sql, job_id))["attempts"] == 0


@pytest.mark.case("I6")
async def test_a_claim_commits_asynchronously_only_where_it_says_so_and_only_itself(
    db: ClonedDatabase, sql: Connection
) -> None:
    for _ in range(2):
        await enqueue(sql)
    async with claimer_on(db) as claimer:
        (lane,) = await claimer.lanes()
        seen = {}
        for hurried in (True, False):
            async with sql.transaction():
                rows = await sql.fetch(
                    statements()["claim_jobs"],
                    *(lane.lane_id, 1, *claimer.owner.pair, new_token(), hurried, 0, None),
                )
                assert len(rows) == 1
                seen[hurried] = await sql.fetchval("show synchronous_commit")

    assert seen == {True: "off", False: "on"}
    assert await sql.fetchval("show synchronous_commit") == "on"


@pytest.mark.case("F11")
async def test_counters_at_their_end_stop_no_claim(db: ClonedDatabase, sql: Connection) -> None:
    full = (await enqueue(sql)).job_id
    await sql.execute("update wakeful.ready set attempts = 2147483647, run_no = 2147483647")
    for _ in range(20):
        await enqueue(sql)
    async with claimer_on(db) as claimer:
        claimed = await claimer.claim()
        assert len(claimed) == 21
        died = await claimer.settle(next(one for one in claimed if one.job.job_id == full), "fail")

    assert died is not None
    assert died.status == "DEAD"


async def test_lanes_are_found_by_what_may_be_claimed_from_them(db: ClonedDatabase, sql: Connection) -> None:
    await enqueue(sql, "A", queue="q1", priority="interactive", limit_key="key")
    await enqueue(sql, "B", queue="q2")
    await enqueue(sql, "C", queue="paused")
    await enqueue(sql, "D", queue="closed")
    await job_in(sql, "SCHEDULED")
    await sql.execute("select wakeful.pause('paused', 'for a test')")
    await sql.execute(
        """insert into wakeful.lane (lane_id, queue, priority, job_type, suspect, closed)
           values (wakeful.lane_id('closed', 'normal', 'D', null, false), 'closed', 'normal', 'D', false, true)"""
    )
    async with claimer_on(db) as claimer:
        lanes = {one.job_type: one for one in await claimer.lanes()}
        of_types = await store.find_lanes(claimer.database, job_types=["B", "Z"], queues=None)
        of_queues = await store.find_lanes(claimer.database, job_types=None, queues=["q1"])

    assert sorted(lanes) == ["A", "B"]
    assert (lanes["A"].queue, lanes["A"].priority, lanes["A"].limit_key) == ("q1", "interactive", "key")
    assert not lanes["A"].suspect
    assert [one.job_type for one in of_types] == ["B"]
    assert [one.job_type for one in of_queues] == ["A"]


async def test_a_resumed_queue_is_found_again(db: ClonedDatabase, sql: Connection) -> None:
    await enqueue(sql, queue="q")
    await sql.execute("select wakeful.pause('q')")
    async with claimer_on(db) as claimer:
        assert await claimer.lanes() == []
        await sql.execute("select wakeful.resume('q')")
        assert len(await claimer.lanes()) == 1


async def test_a_lane_whose_jobs_all_run_is_not_found_and_one_that_waits_behind_them_is(
    db: ClonedDatabase, sql: Connection
) -> None:
    async with claimer_on(db) as claimer:
        await enqueue(sql)
        await claimer.claim()
        assert await claimer.lanes() == []

        await enqueue(sql)
        (lane,) = await claimer.lanes()
        assert lane.waiting >= 0


async def test_looking_for_lanes_waits_for_no_lock(db: ClonedDatabase, sql: Connection) -> None:
    await enqueue(sql)
    async with claimer_on(db) as claimer, sql.transaction():
        await sql.execute("select from wakeful.ready for update")
        with anyio.fail_after(30):
            assert len(await claimer.lanes()) == 1


async def test_a_job_that_lost_its_owner_twice_waits_in_a_lane_of_suspects(
    db: ClonedDatabase, sql: Connection
) -> None:
    await enqueue(sql)
    async with claimer_on(db) as claimer:
        (claimed,) = await claimer.claim()
        await claimer.settle(claimed, "lose")
        (claimed,) = await claimer.claim()
        await claimer.settle(claimed, "lose")
        (lane,) = await claimer.lanes()

        assert lane.suspect
        assert lane.lane_id != claimed.job.lane_id


async def test_a_row_that_is_locked_while_a_claim_is_given_back_is_counted_not_forgotten(
    db: ClonedDatabase, sql: Connection
) -> None:
    for _ in range(2):
        await enqueue(sql)
    async with claimer_on(db) as claimer:
        (lane,) = await claimer.lanes()
        doubtful = await claimer.claim(limit=2, lane=lane.lane_id)
        token = doubtful[0].job.claim

        async with sql.transaction():
            await sql.execute("select wakeful.cancel($1)", doubtful[0].job.job_id)
            assert await store.release_claim(claimer.database, lane.lane_id, token, first=lane.pos) == (1, 1)
        assert await store.release_claim(claimer.database, lane.lane_id, token, first=lane.pos) == (1, 0)


@pytest.mark.case("I8")
async def test_a_claim_with_a_lost_reply_is_given_back_whole_and_charges_no_attempt(
    db: ClonedDatabase, sql: Connection
) -> None:
    for _ in range(3):
        await enqueue(sql)
    async with claimer_on(db) as claimer:
        (lane,) = await claimer.lanes()
        mine = await claimer.claim(limit=1, lane=lane.lane_id)
        doubtful = await claimer.claim(limit=2, lane=lane.lane_id)

        token = doubtful[0].job.claim
        assert await store.release_claim(claimer.database, lane.lane_id, token, first=lane.pos) == (2, 0)
        assert await store.release_claim(claimer.database, lane.lane_id, token, first=lane.pos) == (0, 0)

        rows = await sql.fetch("select * from wakeful.ready order by pos")
        assert [row["owner"] for row in rows] == [claimer.owner.instance_id, None, None]
        assert [row["attempts"] for row in rows] == [1, 0, 0]
        assert [row["run_no"] for row in rows] == [1, 1, 1]
        assert [row["handed_back"] + row["lost"] for row in rows] == [0, 0, 0]
        assert rows[0]["pos"] == mine[0].job.pos < doubtful[1].job.pos < rows[1]["pos"]


@pytest.mark.parametrize(("payload_bytes", "together"), [(0, 10), (0, 200), (200, 10), (800, 200)])
async def test_a_claim_is_a_hot_update(
    db: ClonedDatabase, sql: Connection, payload_bytes: int, together: int
) -> None:
    for number in range(200):
        await enqueue(sql, payload={"text": "x" * payload_bytes, "n": number}, subject="place")
    async with claimer_on(db) as claimer:
        while await claimer.claim(limit=together):
            pass

    async def updates() -> tuple[int, int]:
        row = await sql.fetchrow(
            "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where relid = 'wakeful.ready'::regclass"
        )
        assert row is not None
        return row["n_tup_upd"], row["n_tup_hot_upd"]

    total, hot = await eventually(updates, until=lambda seen: seen[0] == 200)
    assert hot == total


async def test_marking_a_lane_hot_waits_for_nobody(db: ClonedDatabase, sql: Connection) -> None:
    await enqueue(sql)
    async with claimer_on(db) as claimer:
        (lane,) = await claimer.lanes()
        await claimer.database.fetch("fold_lanes", 100)
        async with sql.transaction():
            await sql.execute("select from wakeful.lane for update")
            with anyio.fail_after(30):
                await store.mark_hot(claimer.database, [lane])
        await store.mark_hot(claimer.database, [lane])

    ahead = await sql.fetchval("select hot_until - clock_timestamp() from wakeful.lane")
    assert timedelta(0) < ahead <= timedelta(seconds=2)


async def test_a_lane_that_nobody_has_folded_in_yet_is_marked_hot_all_the_same(
    db: ClonedDatabase, sql: Connection
) -> None:
    """Else all producers of a new, busy queue would notify until the next fold."""
    await enqueue(sql, queue="new", limit_key="key")
    async with claimer_on(db) as claimer:
        (lane,) = await claimer.lanes()
        await store.mark_hot(claimer.database, [lane])
        await claimer.database.fetch("fold_lanes", 100)

    row = await sql.fetchrow("select *, hot_until > clock_timestamp() as hot from wakeful.lane")
    assert row is not None
    assert (row["lane_id"], row["queue"], row["limit_key"], row["hot"]) == (lane.lane_id, "new", "key", True)


@pytest.mark.case("I4")
def test_a_token_is_a_number_of_63_random_bits() -> None:
    tokens = {new_token() for _ in range(1000)}

    assert len(tokens) == 1000
    assert all(0 < token < 2**63 for token in tokens)
    assert max(tokens).bit_length() > 58
