"""The claimer: never more than can start, every lane in its turn, no job lost with a reply, nothing after the stop."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

from support.claiming import claiming_of
from support.databases import ClonedDatabase, Connection
from support.eventually import eventually, looked
from support.factories import enqueue
from support.proxy import Mode, Proxy
from support.working import Claimer, claimer_on
from wakeful.core.pace import ENOUGH_RUNS
from wakeful.core.settings import PollSettings
from wakeful.errors import StoreUnavailable
from wakeful.runtime.claimer import Claiming, claim_lane, claim_round, run_claimer, take_turn
from wakeful.runtime.crew import Crew
from wakeful.runtime.holdings import Holding
from wakeful.runtime.lease import suspended_clock
from wakeful.telemetry.events import DATABASE_LOST, JOB_CLAIMED, JOBS_CLAIMED, LANES_CLAIMED

POLL = PollSettings(min=0.02, max=0.1)
SLOW = PollSettings(min=600.0, max=600.0)


@dataclass(slots=True, kw_only=True)
class Hall:
    """A claimer with its crew, and what it gave back."""

    claiming: Claiming
    claimer: Claimer
    given_back: list[Holding] = field(default_factory=list)

    @property
    def crew(self) -> Crew:
        """The workers."""
        return self.claiming.crew

    async def round(self) -> int:
        """One round; gives how many jobs it claimed."""
        return await claim_round(self.claiming)

    async def take(self, count: int) -> list[Holding]:
        """Let workers take so many of the jobs that wait."""
        taken = [await self.crew.next() for _ in range(count)]
        return [one for one in taken if one is not None]

    def end(self, *holdings: Holding) -> None:
        """Let these jobs have ended."""
        for holding in holdings:
            self.claiming.holdings.drop(holding)
            self.crew.done()


@asynccontextmanager
async def hall(
    db: ClonedDatabase | str,
    *,
    concurrency: int = 4,
    types: list[str] | None = None,
    queues: list[str] | None = None,
    connections: int = 4,
    **caps: int,
) -> AsyncIterator[Hall]:
    async with claimer_on(db, connections=connections) as claimer:
        given_back: list[Holding] = []
        claiming = claiming_of(
            claimer,
            concurrency=concurrency,
            types=types,
            queues=queues,
            caps=caps,
            give_back=given_back.append,
        )
        try:
            yield Hall(claiming=claiming, claimer=claimer, given_back=given_back)
        finally:
            claiming.crew.close()


async def fill(sql: Connection, count: int, job_type: str = "COLLECT", **options: Any) -> None:
    for _ in range(count):
        await enqueue(sql, job_type, **options)


async def owned(sql: Connection, **where: str) -> int:
    column, value = next(iter(where.items()), ("job_type", None))
    count: int = await sql.fetchval(
        f"select count(*) from wakeful.ready where owner is not null and ($1::text is null or {column} = $1)",
        value,
    )
    return count


@pytest.mark.case("F13")
async def test_no_more_is_claimed_than_workers_are_free(db: ClonedDatabase, sql: Connection) -> None:
    await fill(sql, 20)
    async with hall(db, concurrency=4) as h:
        assert await h.round() == 4
        assert await h.round() == 0
        running = await h.take(4)
        assert await h.round() == 0
        h.end(*running[:2])
        assert await h.round() == 2
    assert await owned(sql) == 6


async def test_slow_jobs_are_never_claimed_ahead_and_fast_ones_only_for_free_workers(
    db: ClonedDatabase, sql: Connection
) -> None:
    await fill(sql, 30, "SLOW")
    await fill(sql, 30, "FAST", queue="fast")
    async with hall(db, concurrency=2) as h:
        for _ in range(ENOUGH_RUNS):
            h.claiming.pace.ran("SLOW", 30.0)
            h.claiming.pace.ran("FAST", 0.01)
        await h.round()
        # One worker each: the slow type's, and the fast type's with what it starts within 50 ms.
        assert await owned(sql, job_type="SLOW") == 1
        assert 1 <= await owned(sql, job_type="FAST") <= 1 + 5 * 2


@pytest.mark.case("F13")
async def test_with_two_instances_the_waiting_jobs_go_to_whoever_is_free(
    db: ClonedDatabase, sql: Connection
) -> None:
    await fill(sql, 4, "SLOW")
    async with hall(db, concurrency=2) as h1, hall(db, concurrency=2) as h2:
        assert (await h1.round(), await h2.round()) == (2, 2)
        first, second = await h1.take(2), await h2.take(2)
        await fill(sql, 20, "QUICK")
        assert (await h1.round(), await h2.round()) == (0, 0)
        assert await owned(sql) == 4
        h2.end(second[0])
        for _ in range(20):
            assert (await h1.round(), await h2.round()) == (0, 1)
            h2.end(*await h2.take(1))
        assert len(first) == 2
    assert await owned(sql, job_type="QUICK") == 20


async def test_slots_that_one_lane_can_not_use_go_to_another_in_the_same_round(
    db: ClonedDatabase, sql: Connection
) -> None:
    await fill(sql, 1, priority="interactive")
    await fill(sql, 50, priority="batch")
    async with hall(db, concurrency=10) as h:
        assert await h.round() == 10


@pytest.mark.case("F14")
async def test_a_lane_whose_only_row_is_locked_starves_no_other(db: ClonedDatabase, sql: Connection) -> None:
    locked = (await enqueue(sql, priority="interactive")).job_id
    await fill(sql, 50, priority="batch")
    async with hall(db, concurrency=5) as h, sql.transaction():
        await sql.execute("select from wakeful.ready where job_id = $1 for update", locked)
        for _ in range(10):
            assert await h.round() == 5
            h.end(*await h.take(5))


@pytest.mark.case("F14")
async def test_a_flood_of_interactive_jobs_leaves_batch_jobs_their_part(
    db: ClonedDatabase, sql: Connection
) -> None:
    await fill(sql, 5, "OLD", priority="batch")
    async with hall(db, concurrency=10) as h:
        rounds = 0
        while await owned(sql, job_type="OLD") < 5:
            rounds += 1
            await fill(sql, 12, "FLOOD", priority="interactive")
            await h.round()
            h.end(*await h.take(h.crew.waiting))
        assert rounds <= 5 * 111 / 10 + 1
        assert rounds > 5  # and they did not push in


async def test_a_queue_gives_no_more_than_its_cap(db: ClonedDatabase, sql: Connection) -> None:
    for priority in ("interactive", "normal"):
        await fill(sql, 10, queue="narrow", priority=priority)
    await fill(sql, 10, queue="wide")
    async with hall(db, concurrency=8, narrow=2) as h:
        assert await h.round() == 8
        assert await owned(sql, queue="narrow") == 2
        running = await h.take(8)
        h.end(*(one for one in running if one.job.queue == "wide"))
        await sql.execute("delete from wakeful.ready where queue = 'wide' and owner is null")
        assert await h.round() == 0
        narrow = [one for one in running if one.job.queue == "narrow"]
        narrow[0].stage = "ending"
        assert await h.round() == 1


async def test_suspects_run_one_at_a_time_whatever_lanes_they_are_in(
    db: ClonedDatabase, sql: Connection
) -> None:
    await fill(sql, 2, "A")
    await fill(sql, 2, "B")
    await sql.execute(
        "update wakeful.ready set lost = 2, lane_id = wakeful.lane_id(queue, priority, job_type, null, true)"
    )
    await fill(sql, 3, "INNOCENT")
    async with hall(db, concurrency=8) as h:
        assert await h.round() == 3 + 1
        assert await h.round() == 0
        running = await h.take(4)
        (suspect,) = (one for one in running if one.suspect)
        h.end(suspect)
        assert await h.round() == 1
    assert await sql.fetchval("select count(*) from wakeful.ready where owner is not null and lost = 2") == 2


async def test_only_types_and_queues_that_it_serves_are_claimed(db: ClonedDatabase, sql: Connection) -> None:
    await fill(sql, 1, "MINE", queue="mine")
    await fill(sql, 1, "MINE", queue="other")
    await fill(sql, 1, "OTHER", queue="mine")
    async with hall(db, types=["MINE"], queues=["mine"]) as h:
        assert await h.round() == 1
        (holding,) = await h.take(1)
        assert (holding.job.job_type, holding.job.queue) == ("MINE", "mine")


@pytest.mark.parametrize("reason", ["deposed", "silent", "closed gate"])
async def test_nothing_is_claimed_while_it_is_in_doubt_whether_it_may(
    db: ClonedDatabase, sql: Connection, reason: str
) -> None:
    await fill(sql, 1)
    async with hall(db) as h:
        if reason == "deposed":
            h.claiming.lease.deposed(h.claimer.owner)
        elif reason == "silent":
            h.claiming.lease._sent = suspended_clock() - 0.61 * 30
        else:
            h.claiming.is_open = lambda: False
        assert await h.round() == 0
    assert await owned(sql) == 0


async def test_a_claim_whose_reply_was_lost_is_given_back_and_claimed_anew(
    db: ClonedDatabase, sql: Connection, proxy: Proxy
) -> None:
    await fill(sql, 3)
    async with hall(proxy.dsn(db.name), connections=1) as h:
        (lane,) = await h.claimer.lanes()
        assert await claim_lane(h.claiming, h.claimer.owner, lane, 1) == 1  # the statement is prepared now
        cursors = h.claiming.bearings.cursors
        assert cursors.after(lane.lane_id) <= lane.pos
        await loses_the_reply(h, sql, proxy)
        assert cursors.after(lane.lane_id) <= lane.pos  # not moved by what nobody has seen

        assert await owned(sql) == 3
        assert len(h.claiming.holdings) == 1
        assert await round_after_outage(h) == 2
        held = {one.job_id: one for one in h.claiming.holdings.snapshot()}
        rows = await sql.fetch("select * from wakeful.ready")
        assert {row["job_id"]: row["claim"] for row in rows} == {key: one.claim for key, one in held.items()}
        assert sorted((row["attempts"], row["run_no"]) for row in rows) == [(1, 1), (1, 2), (1, 2)]
        assert len(h.claimer.recorder.of(JOB_CLAIMED)) == 3
        assert [told["jobs"] for told in h.claimer.recorder.of(JOBS_CLAIMED)] == [1, 2]


async def loses_the_reply(h: Hall, sql: Connection, proxy: Proxy) -> None:
    """Send a claim of two jobs, let the server commit it, and cut the connection before it can say so."""
    (lane,) = await h.claimer.lanes()
    raised = []

    async def claim() -> None:
        try:
            await claim_lane(h.claiming, h.claimer.owner, lane, 2)
        except StoreUnavailable as error:
            raised.append(error)

    async with anyio.create_task_group() as group:
        proxy.set(Mode.HOLD_REPLIES)
        group.start_soon(claim)
        await eventually(lambda: owned(sql), until=lambda count: count == 3)
        proxy.reset()
        proxy.set(Mode.PASS)
    assert raised


async def round_after_outage(h: Hall) -> int:
    with anyio.fail_after(20):
        while True:
            try:
                return await h.round()
            except StoreUnavailable:
                await h.claimer.database.available(anyio.Event())


async def test_a_doubtful_claim_that_commits_late_is_given_back_then(
    db: ClonedDatabase, sql: Connection
) -> None:
    """The statement of a cut connection may still run in the server: it is asked again."""
    await fill(sql, 1)
    async with hall(db) as h:
        (lane,) = await h.claimer.lanes()
        h.claiming.holdings.doubt(lane.lane_id, 4711, first=0, until=time.monotonic() + 120)
        h.claiming.is_open = lambda: True
        await sql.execute("select wakeful.pause('default')")
        assert await h.round() == 0

        await sql.execute("update wakeful.ready set owner = 1, claim = 4711, attempts = 1")
        for doubt in h.claiming.holdings._doubts.values():
            doubt.ask_at = 0.0
        assert await h.round() == 0
        row = await sql.fetchrow("select * from wakeful.ready")
        assert row is not None
        assert (row["owner"], row["attempts"]) == (None, 0)
        assert h.claiming.holdings.doubts() == []


async def test_a_doubt_is_not_asked_about_in_every_round(db: ClonedDatabase, sql: Connection) -> None:
    async with hall(db) as h:
        h.claiming.holdings.doubt(1, 4711, first=0, until=time.monotonic() + 120)
        await h.round()
        assert h.claiming.holdings.doubts() == []
        assert len(h.claiming.holdings._doubts) == 1


async def test_a_claim_that_outlived_its_owner_is_let_go(db: ClonedDatabase, sql: Connection) -> None:
    await fill(sql, 1)
    async with hall(db) as h:
        (lane,) = await h.claimer.lanes()
        h.claiming.lease.deposed(h.claimer.owner)
        assert await claim_lane(h.claiming, h.claimer.owner, lane, 1) == 1
        (holding,) = await h.take(1)
        assert holding.lost


async def test_a_claim_that_is_answered_after_the_stop_is_given_back(
    db: ClonedDatabase, sql: Connection
) -> None:
    await fill(sql, 3)
    async with hall(db) as h:
        (lane,) = await h.claimer.lanes()
        h.crew.close()
        assert await claim_lane(h.claiming, h.claimer.owner, lane, 1) == 1
        assert [one.job_id for one in h.given_back] == [one.job_id for one in h.claiming.holdings.snapshot()]
        assert await h.round() == 0
    assert await owned(sql) == 1


async def looked_just_now(h: Hall) -> None:
    """Let the claimer have looked at everything, and found nothing."""
    await take_turn(h.claiming, SLOW)
    assert h.crew.waiting == 0


async def test_a_lane_that_is_named_is_looked_at_alone(db: ClonedDatabase, sql: Connection) -> None:
    async with hall(db) as h:
        await looked_just_now(h)
        await fill(sql, 1, "NAMED")
        await fill(sql, 1, "OTHER")
        lane = next(one for one in await h.claimer.lanes() if one.job_type == "NAMED")
        h.claiming.finding.hints.hear(lane.lane_id)
        await take_turn(h.claiming, SLOW)
        assert (await owned(sql, job_type="NAMED"), await owned(sql, job_type="OTHER")) == (1, 0)

        h.claiming.finding.look_seconds = 0.0
        h.claiming.finding.hints.hear(None)
        await take_turn(h.claiming, SLOW)
        assert await owned(sql, job_type="OTHER") == 1


async def test_a_look_that_would_come_too_soon_after_the_last_one_is_made_as_soon_as_it_may(
    db: ClonedDatabase, sql: Connection
) -> None:
    """With thousands of lanes each look is dear: what is heard meanwhile shares the next one."""
    async with hall(db) as h:
        await looked_just_now(h)
        await fill(sql, 1)
        h.claiming.finding.look_seconds = 2.0
        h.claiming.finding.hints.hear(None)
        seconds = await take_turn(h.claiming, SLOW)
        assert h.crew.waiting == 0
        assert 0 < seconds <= 20.0

        h.claiming.finding.looked_at -= 20.0
        await take_turn(h.claiming, SLOW)
        assert h.crew.waiting == 1


async def test_one_look_that_was_held_up_puts_no_other_off(db: ClonedDatabase, sql: Connection) -> None:
    async with hall(db) as h:
        await looked_just_now(h)
        async with anyio.create_task_group() as group, sql.transaction():
            await sql.execute("lock table wakeful.queue in access exclusive mode")
            await fill(await db.connect(), 1)
            h.claiming.finding.hints.hear(None)
            group.start_soon(take_turn, h.claiming, SLOW)
            waits = "select count(*) from pg_locks where not granted"
            await eventually(lambda: sql.fetchval(waits))
            began = h.claiming.finding.looked_at
            await eventually(looked(lambda: time.monotonic() - began), until=lambda passed: passed > 0.5)
        finding = h.claiming.finding
        assert finding.last_look_seconds > 0.2
        assert finding.look_seconds < 0.2


async def test_a_lane_that_was_seen_and_gave_nothing_is_looked_at_again_soon(
    db: ClonedDatabase, sql: Connection
) -> None:
    poll = PollSettings(min=1.0, max=60.0)
    await fill(sql, 1)
    async with hall(db) as h, sql.transaction():
        await sql.execute("select from wakeful.ready for update")
        for _ in range(5):
            h.claiming.finding.hints.hear(None)
            assert await take_turn(h.claiming, poll) <= poll.min
        assert h.crew.waiting == 0


async def test_what_was_heard_while_the_database_was_away_is_looked_at_afterwards(
    db: ClonedDatabase, sql: Connection, proxy: Proxy
) -> None:
    async with hall(proxy.dsn(db.name), connections=1) as h:
        await looked_just_now(h)
        await fill(sql, 1)
        h.claiming.finding.hints.hear(await sql.fetchval("select lane_id from wakeful.ready"))
        proxy.set(Mode.REFUSE)
        proxy.reset()
        with pytest.raises(StoreUnavailable):
            await take_turn(h.claiming, SLOW)
        proxy.set(Mode.PASS)
        await eventually(looked(lambda: h.claimer.database.outage.seconds_to_next_try <= 0))
        await take_turn(h.claiming, SLOW)
        assert h.crew.waiting == 1


async def test_a_lane_that_gives_as_much_as_was_asked_is_claimed_again_without_a_look(
    db: ClonedDatabase, sql: Connection
) -> None:
    await fill(sql, 10)
    async with hall(db, concurrency=4) as h:
        await take_turn(h.claiming, SLOW)
        looked_at = h.claiming.finding.looked_at
        for _ in range(2):
            h.end(*await h.take(4))
            await take_turn(h.claiming, SLOW)
        assert h.claiming.finding.looked_at == looked_at
    assert await owned(sql) == 10


async def test_a_claimer_that_starts_knows_after_two_turns_what_is_settled(
    db: ClonedDatabase, sql: Connection
) -> None:
    await fill(sql, 3)
    async with hall(db, concurrency=1) as h:
        await take_turn(h.claiming, SLOW)
        h.claiming.bearings.ticked_at = 0.0
        await take_turn(h.claiming, SLOW)

        assert h.claiming.bearings.settling.low_water == await sql.fetchval(
            "select last_value from wakeful.position"
        )


async def test_lanes_of_others_are_remembered_and_left_out(db: ClonedDatabase, sql: Connection) -> None:
    await fill(sql, 2, "THEIRS")
    async with hall(db, types=["OURS"]) as h:
        await looked_just_now(h)
        (lane,) = h.claiming.finding.foreign
        assert lane == await sql.fetchval("select min(lane_id) from wakeful.ready")

        await fill(sql, 1, "OURS")
        h.claiming.finding.look_seconds = 0.0
        h.claiming.finding.hints.hear(None)
        await take_turn(h.claiming, SLOW)
        assert h.crew.waiting == 1


async def test_a_queue_that_was_paused_after_the_look_gives_nothing(
    db: ClonedDatabase, sql: Connection
) -> None:
    await fill(sql, 3)
    async with hall(db) as h:
        (lane,) = await h.claimer.lanes()
        await sql.execute("select wakeful.pause('default')")
        assert await claim_lane(h.claiming, h.claimer.owner, lane, 1) == 0

        await sql.execute("select wakeful.resume('default')")
        assert await claim_lane(h.claiming, h.claimer.owner, lane, 1) == 1


async def test_it_wakes_by_its_bell_and_ends_at_once_at_the_stop(db: ClonedDatabase, sql: Connection) -> None:
    async with hall(db) as h:
        stop = anyio.Event()
        slow = PollSettings(min=600.0, max=600.0)
        async with anyio.create_task_group() as group:
            group.start_soon(run_with(h, stop, slow))
            await eventually(looked(lambda: True))
            await fill(sql, 1)
            h.claiming.bell.ring()
            await h.claimer.recorder.seen(JOB_CLAIMED)
            began = anyio.current_time()
            stop.set()
        assert anyio.current_time() - began < 5


async def test_it_polls_without_being_woken(db: ClonedDatabase, sql: Connection) -> None:
    async with hall(db) as h:
        stop = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(run_with(h, stop, POLL))
            await fill(sql, 1)
            await h.claimer.recorder.seen(JOB_CLAIMED)
            stop.set()


async def test_a_worker_that_becomes_free_wakes_it_where_more_was_waiting(
    db: ClonedDatabase, sql: Connection
) -> None:
    await fill(sql, 2)
    async with hall(db, concurrency=1) as h:
        stop = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(run_with(h, stop, PollSettings(min=600.0, max=600.0)))
            (first,) = await h.take(1)
            h.end(first)
            (second,) = await h.take(1)
            assert first.job_id != second.job_id
            stop.set()


async def test_a_worker_that_becomes_free_wakes_it_where_it_might_not_claim(
    db: ClonedDatabase, sql: Connection
) -> None:
    """Too much was unwritten, say: what ends now may have changed that."""
    await fill(sql, 2)
    async with hall(db, concurrency=1) as h:
        stop = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(run_with(h, stop, SLOW))
            (first,) = await h.take(1)
            asked: list[str] = []

            def refuse() -> bool:
                asked.append("may it claim?")
                return False

            h.claiming.finding.look_seconds = 0.0
            h.claiming.is_open = refuse
            h.claiming.bell.ring()
            await eventually(looked(lambda: asked))
            h.claiming.is_open = lambda: True
            h.end(first)
            assert len(await h.take(1)) == 1
            stop.set()


async def test_a_busy_lane_is_marked_hot_and_polled_without_notifications(
    db: ClonedDatabase, sql: Connection
) -> None:
    await fill(sql, 25)
    async with hall(db, concurrency=30) as h:
        await h.claimer.database.fetch("fold_lanes", 100)
        stop = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(run_with(h, stop, PollSettings(min=600.0, max=600.0)))
            await h.claimer.recorder.seen(LANES_CLAIMED, jobs=25)
            hot = "select hot_until > clock_timestamp() from wakeful.lane"
            await eventually(lambda: sql.fetchval(hot))
            await fill(sql, 1, notify=False)
            await eventually(looked(lambda: h.crew.waiting), until=lambda count: count == 26)
            stop.set()


@pytest.mark.case("F80")
async def test_an_outage_is_waited_out_and_charged_to_nobody(
    db: ClonedDatabase, sql: Connection, proxy: Proxy
) -> None:
    async with hall(proxy.dsn(db.name)) as h:
        stop = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(run_with(h, stop, POLL))
            await fill(sql, 1)
            await h.claimer.recorder.seen(JOB_CLAIMED)
            proxy.set(Mode.REFUSE)
            proxy.reset()
            await fill(sql, 1)
            await h.claimer.recorder.seen(DATABASE_LOST)
            proxy.set(Mode.PASS)
            await eventually(looked(lambda: h.crew.waiting), until=lambda count: count == 2)
            stop.set()
    assert await sql.fetchval("select max(attempts) from wakeful.ready") == 1


def run_with(h: Hall, stop: anyio.Event, poll: PollSettings) -> Callable[[], Any]:
    async def run() -> None:
        await run_claimer(h.claiming, stop, poll=poll, turned=lambda: None)

    return run
