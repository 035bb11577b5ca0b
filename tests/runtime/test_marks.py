"""Hot lanes that their daemon leaves: a job that nobody was told of is found by another, long before its poll (I18)."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from support.claiming import claiming_of
from support.databases import ClonedDatabase, Connection
from support.eventually import eventually, looked
from support.factories import enqueue
from support.working import Claimer, claimer_on
from wakeful.core.settings import PollSettings
from wakeful.runtime.claimer import Claiming, claim_round, run_claimer
from wakeful.runtime.finding import HOT_ROUND
from wakeful.runtime.marks import FULL_SECONDS, Marks, cool_while_full, mark
from wakeful.store import instances, jobs

RARELY = PollSettings(min=600.0, max=600.0)
HOT = "select hot_until > clock_timestamp() from wakeful.lane"
FOR_LONG = "update wakeful.lane set hot_until = clock_timestamp() + interval '1 hour'"


async def lane_of(claimer: Claimer, sql: Connection) -> jobs.Lane:
    """A lane with a job."""
    await enqueue(sql)
    (lane,) = await claimer.lanes()
    return lane


async def told(db: ClonedDatabase) -> list[int]:
    """Listen on a connection of its own; what it hears comes into the list."""
    heard: list[int] = []
    ear = await db.connect()
    await ear.add_listener("wakeful", lambda _connection, _pid, _channel, text: heard.append(int(str(text))))
    return heard


@asynccontextmanager
async def listening(db: ClonedDatabase, *, concurrency: int) -> AsyncIterator[Claiming]:
    """A claimer that runs, hears, and polls every ten minutes."""
    async with claimer_on(db, name="listening") as claimer, anyio.create_task_group() as group:
        claiming, stop = claiming_of(claimer, concurrency=concurrency), anyio.Event()

        def hear(_connection: object, _pid: int, _channel: str, text: object) -> None:
            claiming.finding.hints.hear(int(str(text)))
            claiming.bell.ring()

        await (await db.connect()).add_listener("wakeful", hear)
        turns: list[None] = []

        async def run() -> None:
            await run_claimer(claiming, stop, poll=RARELY, turned=lambda: turns.append(None))

        group.start_soon(run)
        await eventually(looked(lambda: claiming.finding.looked_at > 0.0))
        yield claiming
        stop.set()
        claiming.bell.ring()


async def test_a_lane_that_turns_hot_is_told_once(db: ClonedDatabase, sql: Connection) -> None:
    """Whoever is idle polls closely for a while then, and sees the mark."""
    async with claimer_on(db) as claimer:
        lane, heard = await lane_of(claimer, sql), await told(db)
        for _ in range(3):
            await jobs.mark_hot(claimer.database, [lane])
        await sql.execute(
            "update wakeful.lane set hot_until = clock_timestamp() + interval '10 milliseconds'"
        )
        await eventually(lambda: sql.fetchval(HOT), until=lambda hot: not hot)
        await jobs.mark_hot(claimer.database, [lane])

        await eventually(looked(lambda: heard), until=lambda lanes: len(lanes) >= 2)
        assert heard == [lane.lane_id] * 2


@pytest.mark.case("I18")
async def test_a_drain_takes_its_marks_back_and_tells_others(db: ClonedDatabase, sql: Connection) -> None:
    async with claimer_on(db) as claimer:
        lane = await lane_of(claimer, sql)
        await jobs.mark_hot(claimer.database, [lane])
        await sql.execute(FOR_LONG)
        heard = await told(db)
        await instances.drain(claimer.database, claimer.owner.pair, hot=[lane.lane_id])

        assert await sql.fetchval("select state from wakeful.instance") == "draining"
        assert await sql.fetchval(HOT) is False
        await eventually(looked(lambda: heard), until=lambda lanes: lanes == [lane.lane_id])


async def test_a_drain_leaves_marks_of_others_and_waits_for_no_lane(
    db: ClonedDatabase, sql: Connection
) -> None:
    async with claimer_on(db) as claimer:
        lane = await lane_of(claimer, sql)
        await enqueue(sql, queue="another")
        await jobs.mark_hot(claimer.database, await claimer.lanes())
        await sql.execute(FOR_LONG)
        async with sql.transaction():
            await sql.execute("select from wakeful.lane where lane_id = $1 for update", lane.lane_id)
            with anyio.fail_after(20):
                await instances.drain(claimer.database, claimer.owner.pair, hot=[lane.lane_id])

        assert await sql.fetchval("select state from wakeful.instance") == "draining"
        assert await sql.fetchval("select bool_and(hot_until > clock_timestamp()) from wakeful.lane")


async def test_a_mark_that_was_on_its_way_when_the_drain_came_is_taken_back(
    db: ClonedDatabase, sql: Connection
) -> None:
    async with claimer_on(db) as claimer, anyio.create_task_group() as group:
        lane, marks = await lane_of(claimer, sql), Marks()
        marks.busy[lane.lane_id] = lane
        transaction = sql.transaction()
        await transaction.start()
        await sql.execute("lock table wakeful.lane in access exclusive mode")
        group.start_soon(mark, marks, claimer.database)
        await eventually(looked(lambda: marks.until))
        assert marks.leave() == [lane.lane_id]
        await transaction.rollback()
    assert await sql.fetchval(HOT) is False

    async with claimer_on(db) as claimer:
        marks.busy[lane.lane_id] = lane
        await mark(marks, claimer.database)
    assert await sql.fetchval(HOT) is False


async def test_marks_are_kept_while_there_is_no_room_for_a_moment_only(
    db: ClonedDatabase, sql: Connection
) -> None:
    async with claimer_on(db) as claimer:
        lane, marks = await lane_of(claimer, sql), Marks()
        marks.busy[lane.lane_id] = lane
        await mark(marks, claimer.database)
        await sql.execute(FOR_LONG)
        for _ in range(3):
            marks.until[lane.lane_id] = math.inf  # however slow this machine is
            assert 0 < await cool_while_full(marks, claimer.database) <= FULL_SECONDS + 0.001
            await mark(marks, claimer.database)  # a turn with room
            assert marks.full_since is None
        assert await sql.fetchval(HOT) is True


@pytest.mark.case("I18")
async def test_what_a_full_instance_leaves_in_its_hot_lane_is_found_by_an_idle_one(
    db: ClonedDatabase, sql: Connection
) -> None:
    """Of the last job nobody is told when it comes: the lane was hot. The idle one polls every ten minutes."""
    async with claimer_on(db) as first, listening(db, concurrency=1) as idle:
        full = claiming_of(first, concurrency=HOT_ROUND)
        await sql.execute(
            "select from wakeful.enqueue_many((select jsonb_agg($1::jsonb) from generate_series(1, $2::int)), false)",
            '{"job_type": "COLLECT"}',
            HOT_ROUND,
        )
        assert await claim_round(full) == HOT_ROUND
        for _ in range(HOT_ROUND):
            await full.crew.next()
        assert await sql.fetchval(HOT) is True
        await sql.execute(FOR_LONG)
        full.finding.marks.until = dict.fromkeys(
            full.finding.marks.until, math.inf
        )  # however long this takes
        await enqueue(sql)
        assert idle.crew.waiting == 0

        async with anyio.create_task_group() as group:
            stop = anyio.Event()
            group.start_soon(_claim, full, stop)
            await eventually(looked(lambda: idle.crew.waiting), timeout=30.0)
            # A notification from before may have come late, and led the idle one there by itself.
            await eventually(lambda: sql.fetchval(HOT), until=lambda hot: hot is False)
            stop.set()
            full.bell.ring()


@pytest.mark.case("I18")
async def test_what_came_into_the_hot_lane_of_one_that_died_is_found_when_its_mark_runs_out(
    db: ClonedDatabase, sql: Connection
) -> None:
    async with claimer_on(db) as dead:
        await jobs.mark_hot(dead.database, [await lane_of(dead, sql)])
    await sql.execute("delete from wakeful.ready")
    heard = await told(db)
    # Marked once more, or the idle one might begin after the mark.
    await sql.execute("update wakeful.lane set hot_until = clock_timestamp() + interval '3 seconds'")
    async with listening(db, concurrency=1) as idle:
        assert idle.finding.marked_until > idle.finding.looked_at
        await enqueue(sql)
        assert heard == []

        await eventually(looked(lambda: idle.crew.waiting), timeout=30.0)
        assert await sql.fetchval(HOT) is False


async def _claim(claiming: Claiming, stop: anyio.Event) -> None:
    await run_claimer(claiming, stop, poll=RARELY, turned=lambda: None)
