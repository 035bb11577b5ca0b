"""The finisher: written together and at once, nobody waits for a row, and only the fence drops a result."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast
from uuid import UUID

import anyio

from support.databases import ClonedDatabase, Connection
from support.eventually import eventually, looked
from support.factories import enqueue, status_of
from support.holding import make_holding
from support.proxy import Mode, Proxy
from support.working import Claimer, claimer_on, held, job_row, table_of
from wakeful.aio.wakeup import Wakeup
from wakeful.core.outcome import Discarded, Done, ErrorEntry, Failed, HandedBack, Outcome, Snoozed
from wakeful.runtime.conclusion import Conclusion, Landing
from wakeful.runtime.crew import Crew
from wakeful.runtime.finisher import CROWDED, ENOUGH_TOGETHER, GATHER_SECONDS, LARGE, Finisher
from wakeful.runtime.flush import Flushing
from wakeful.runtime.holdings import Holdings
from wakeful.runtime.preparing import Executing
from wakeful.runtime.worker import Workers
from wakeful.store.jobs import Claimed
from wakeful.telemetry.events import (
    ATTEMPTS_ENDED,
    DATABASE_LOST,
    FLUSH_COMMITTED,
    FLUSH_FAILED,
    FLUSH_SPLIT,
    JOB_DIED,
    JOB_FINISHED,
    JOB_LOST,
    JOB_RETRIED,
    JOB_SNOOZED,
    JOB_UNKNOWN_OUTCOME,
    RESULT_REPLACED,
)


@dataclass(slots=True, kw_only=True)
class Desk:
    """A finisher that runs, the store that it writes through, and what became of what was handed in."""

    finisher: Finisher
    claimer: Claimer
    holdings: Holdings
    landings: dict[UUID, str] = field(default_factory=dict)
    deaths: int = 0

    def submit(self, claimed: Claimed, outcome: Outcome) -> None:
        """Hand the end of an attempt in."""

        def landed(landing: Landing) -> None:
            self.landings[claimed.job.job_id] = landing.fate

        self.finisher.submit(Conclusion(holding=held(claimed), outcome=outcome, landed=landed))

    async def settled(self) -> None:
        """Wait until all is written."""
        with anyio.fail_after(20):
            await self.finisher.settled()


@asynccontextmanager
async def desk(
    claimer: Claimer,
    *,
    run: bool = True,
    gather: float = GATHER_SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[Desk]:
    holdings = Holdings()
    flushing = Flushing(database=claimer.database, telemetry=claimer.database.telemetry, lost_limit=3)

    def on_death() -> None:
        made.deaths += 1

    finisher = Finisher(flushing, holdings, on_death=on_death, gather=gather, clock=clock)
    made = Desk(finisher=finisher, claimer=claimer, holdings=holdings)
    over = anyio.Event()
    async with anyio.create_task_group() as group:
        if run:
            group.start_soon(finisher.run, over)
        yield made
        over.set()


def failed(*, retry: bool = True, delay: float = 0.0, message: str = "no") -> Failed:
    return Failed(error=ErrorEntry(type="Boom", message=message), delay=delay, retry=retry)


DONE = Done(result_text='{"pages": 4}')


async def claimed_jobs(sql: Connection, claimer: Claimer, count: int, *types: str) -> list[Claimed]:
    for number in range(count):
        await enqueue(sql, types[number % len(types)] if types else "COLLECT")
    return await claimer.claim(limit=1000)


async def enqueue_many(sql: Connection, count: int) -> None:
    await sql.execute(
        """select wakeful.enqueue_many(jsonb_agg('{"job_type": "COLLECT"}'::jsonb), false)
           from generate_series(1, $1::integer)""",
        count,
    )


async def test_a_result_is_written_at_once_when_nothing_else_is(db: ClonedDatabase, sql: Connection) -> None:
    async with claimer_on(db) as claimer, desk(claimer) as d:
        (claimed,) = await claimed_jobs(sql, claimer, 1)
        began = anyio.current_time()
        d.submit(claimed, DONE)
        await d.settled()
        assert anyio.current_time() - began < 5
        assert d.landings == {claimed.job.job_id: "DONE"}
        assert (await job_row(sql, claimed.job.job_id))["result"] == {"pages": 4}


async def test_what_is_ready_together_is_written_together(db: ClonedDatabase, sql: Connection) -> None:
    async with claimer_on(db) as claimer, desk(claimer) as d:
        for one in await claimed_jobs(sql, claimer, 300):
            d.submit(one, DONE)
        await d.settled()
        assert [seen["jobs"] for seen in claimer.recorder.of(FLUSH_COMMITTED)] == [300]
        assert len(claimer.recorder.of(JOB_FINISHED)) == 300
        (alike,) = claimer.recorder.of(ATTEMPTS_ENDED)
        assert (alike["job_type"], alike["outcome"], alike["jobs"]) == ("COLLECT", "finished", 300)
        for times in (alike["wait_ms"], alike["run_ms"]):
            assert isinstance(times, list) and len(times) == 300


async def test_right_after_a_large_flush_the_next_gathers_and_a_lone_result_never_waits(
    db: ClonedDatabase, sql: Connection
) -> None:
    now = [0.0]
    await enqueue_many(sql, 1 + LARGE + ENOUGH_TOGETHER + 1)
    async with claimer_on(db) as claimer, desk(claimer, gather=3600.0, clock=lambda: now[0]) as d:
        lone, *claimed, late = await claimer.claim(limit=1000)
        large, first, rest = claimed[:LARGE], claimed[LARGE : LARGE + 10], claimed[LARGE + 10 :]
        for batch in ([lone], large):
            for one in batch:
                d.submit(one, DONE)
            await d.settled()
        for one in first:
            d.submit(one, DONE)
        for _ in range(3):
            await sql.execute("select")  # time enough for a flush to begin
        for one in rest:
            d.submit(one, DONE)
        await d.settled()
        now[0] = 3601.0
        d.submit(late, DONE)
        await d.settled()

        sizes = [seen["jobs"] for seen in claimer.recorder.of(FLUSH_COMMITTED)]
        assert sizes == [1, LARGE, ENOUGH_TOGETHER, 1]


async def test_enough_that_came_at_once_cut_no_later_gathering_short(
    db: ClonedDatabase, sql: Connection
) -> None:
    await enqueue_many(sql, LARGE + 2 * ENOUGH_TOGETHER)
    async with claimer_on(db) as claimer, desk(claimer, gather=3600.0, clock=lambda: 0.0) as d:
        *claimed, last = await claimer.claim(limit=2000)
        for batch in (claimed[:LARGE], claimed[LARGE : LARGE + ENOUGH_TOGETHER]):
            for one in batch:
                d.submit(one, DONE)
            await d.settled()
        for one in claimed[LARGE + ENOUGH_TOGETHER :]:
            d.submit(one, DONE)
        for _ in range(3):
            await sql.execute("select")  # time enough for a flush to begin
        d.submit(last, DONE)
        await d.settled()

        sizes = [seen["jobs"] for seen in claimer.recorder.of(FLUSH_COMMITTED)]
        assert sizes == [LARGE, ENOUGH_TOGETHER, ENOUGH_TOGETHER]


async def test_ends_of_every_kind_and_of_many_lanes_go_in_one_transaction(
    db: ClonedDatabase, sql: Connection
) -> None:
    outcomes: list[tuple[Outcome, str]] = [
        (DONE, "DONE"),
        (failed(), "PENDING"),
        (failed(retry=False), "DEAD"),
        (Snoozed(delay=60, reason="not yet"), "PENDING"),
        (HandedBack(), "PENDING"),
        (Discarded(reason="not needed"), "CANCELLED"),
    ]
    async with claimer_on(db) as claimer, desk(claimer) as d:
        claimed = await claimed_jobs(sql, claimer, 36, "A", "B", "C")
        expected = {}
        for one, (outcome, fate) in zip(claimed, outcomes * 6, strict=True):
            d.submit(one, outcome)
            expected[one.job.job_id] = fate
        await d.settled()
        assert d.landings == expected
        assert d.deaths == len(claimer.recorder.of(JOB_DIED)) == 6
        assert len(claimer.recorder.of(FLUSH_COMMITTED)) == 1
        assert [one["error"] for one in claimer.recorder.of(JOB_SNOOZED)] == ["not yet"] * 6
    transactions = await sql.fetchval(
        """select count(distinct xmin::text)
           from (select xmin from wakeful.dead union all select xmin from wakeful.finished
                 union all select xmin from wakeful.scheduled union all select xmin from wakeful.ready) as written"""
    )
    assert transactions == 1


async def test_one_row_that_somebody_has_locked_holds_nobody_else_up(
    db: ClonedDatabase, sql: Connection
) -> None:
    async with claimer_on(db) as claimer, desk(claimer) as d:
        claimed = await claimed_jobs(sql, claimer, 100)
        locked = claimed[50].job.job_id
        async with sql.transaction():
            await sql.execute("select wakeful.cancel($1)", locked)
            for one in claimed:
                d.submit(one, DONE)
            await eventually(looked(lambda: len(d.landings)), until=lambda count: count == 99)
            (more,) = await claimed_jobs(await db.connect(), claimer, 1)
            d.submit(more, DONE)
            await eventually(looked(lambda: d.landings.get(more.job.job_id)))
            assert locked not in d.landings
            assert d.finisher.unsettled == 1
        await d.settled()
        assert d.landings[locked] == "DONE"
        assert claimer.recorder.of(FLUSH_FAILED) == claimer.recorder.of(JOB_LOST) == []


async def test_a_row_that_stays_locked_is_not_asked_for_without_a_pause(
    db: ClonedDatabase, sql: Connection
) -> None:
    async with claimer_on(db) as claimer, desk(claimer) as d:
        (claimed,) = await claimed_jobs(sql, claimer, 1)
        async with sql.transaction():
            await sql.execute("select from wakeful.ready for update")
            d.submit(claimed, DONE)
            await anyio.sleep(1.0)
        await d.settled()
        assert len(claimer.recorder.of(FLUSH_COMMITTED)) <= 8


async def test_one_bad_value_in_a_hundred_stops_none_of_its_neighbours(
    db: ClonedDatabase, sql: Connection
) -> None:
    async with claimer_on(db) as claimer, desk(claimer) as d:
        claimed = await claimed_jobs(sql, claimer, 100)
        bad = claimed[37].job.job_id
        for one in claimed:
            d.submit(one, Done(result_text="{broken") if one.job.job_id == bad else DONE)
        await d.settled()

        assert d.landings.pop(bad) == "PENDING"
        assert set(d.landings.values()) == {"DONE"}
        row = await job_row(sql, bad)
        assert row["last_error"].startswith("OutcomeRefused: ")
        assert "json" in row["last_error"]
        assert len(claimer.recorder.of(FLUSH_SPLIT)) <= 8
        assert len(claimer.recorder.of(RESULT_REPLACED, job_id=str(bad))) == 1


async def test_a_job_whose_result_is_refused_is_not_run_again_at_once(
    db: ClonedDatabase, sql: Connection
) -> None:
    async with claimer_on(db) as claimer, desk(claimer) as d:
        (claimed,) = await claimed_jobs(sql, claimer, 1)
        d.submit(claimed, Done(result_text="{broken"))
        await d.settled()
    assert await table_of(sql, claimed.job.job_id) == ["scheduled"]


async def test_a_bad_error_text_is_replaced_by_one_that_always_stores(
    db: ClonedDatabase, sql: Connection
) -> None:
    """Texts are clean by construction; should one not be, it costs itself only, and the attempt has still failed."""
    async with claimer_on(db) as claimer, desk(claimer) as d:
        bad, good = await claimed_jobs(sql, claimer, 2)
        d.submit(bad, failed(message="\x00", delay=60.0, retry=False))
        d.submit(good, failed())
        await d.settled()
        assert d.landings == {bad.job.job_id: "DEAD", good.job.job_id: "PENDING"}
    assert (await job_row(sql, bad.job.job_id))["last_error"].startswith("OutcomeRefused: ")


async def test_values_of_several_lanes_and_kinds_are_refused_each_by_itself(
    db: ClonedDatabase, sql: Connection
) -> None:
    async with claimer_on(db) as claimer, desk(claimer) as d:
        claimed = await claimed_jobs(sql, claimer, 60, "A", "B", "C")
        bad = {one.job.job_id for one in claimed[::20]}
        for number, one in enumerate(claimed):
            good: Outcome = DONE if number % 2 else failed()
            d.submit(one, Done(result_text="") if one.job.job_id in bad else good)
        await d.settled()
        refused = {str(seen["job_id"]) for seen in claimer.recorder.of(RESULT_REPLACED)}
        assert refused == {str(job_id) for job_id in bad}
        assert len(d.landings) == 60


async def test_a_commit_whose_reply_was_lost_is_known_by_the_next_statement(
    db: ClonedDatabase, sql: Connection, proxy: Proxy
) -> None:
    async with claimer_on(proxy.dsn(db.name), connections=1) as claimer, desk(claimer) as d:
        warm, done, dead = await claimed_jobs(sql, claimer, 3)
        d.submit(warm, DONE)
        await d.settled()

        await loses_the_reply(
            proxy, lambda: d.submit(done, DONE), lambda: status_of(sql, done.job.job_id), "DONE"
        )
        await d.settled()
        d.submit(dead, failed(retry=False))
        await d.settled()

        assert d.landings[done.job.job_id] == "DONE"
        assert len(claimer.recorder.of(JOB_FINISHED)) == 2
        assert claimer.recorder.of(JOB_LOST) == []
    assert (await job_row(sql, done.job.job_id))["run_no"] == 1


async def test_a_death_whose_reply_was_lost_is_told_as_a_death_once(
    db: ClonedDatabase, sql: Connection, proxy: Proxy
) -> None:
    async with claimer_on(proxy.dsn(db.name), connections=1) as claimer, desk(claimer) as d:
        warm, dead = await claimed_jobs(sql, claimer, 2)
        d.submit(warm, failed())
        await d.settled()

        end = failed(retry=False)
        await loses_the_reply(
            proxy, lambda: d.submit(dead, end), lambda: status_of(sql, dead.job.job_id), "DEAD"
        )
        await d.settled()

        assert d.landings[dead.job.job_id] == "DEAD"
        assert d.deaths == 1
        assert len(claimer.recorder.of(JOB_DIED)) == 1
    assert await sql.fetchval("select count(*) from wakeful.alert_outbox") == 1


async def test_a_lost_reply_about_a_job_without_history_is_unknown_and_counted_apart(
    db: ClonedDatabase, sql: Connection, proxy: Proxy
) -> None:
    async with claimer_on(proxy.dsn(db.name), connections=1) as claimer, desk(claimer) as d:
        warm, gone = await claimed_jobs(sql, claimer, 2)
        d.submit(warm, DONE)
        await d.settled()

        end = Done(result_text="null", history=False)
        await loses_the_reply(
            proxy, lambda: d.submit(gone, end), lambda: status_of(sql, gone.job.job_id), None
        )
        await d.settled()

        assert d.landings[gone.job.job_id] == "unknown"
        assert len(claimer.recorder.of(JOB_UNKNOWN_OUTCOME)) == 1
        assert claimer.recorder.of(JOB_LOST) == []


async def loses_the_reply(
    proxy: Proxy, submit: Callable[[], None], look: Callable[[], object], expected: object
) -> None:
    """Let the server do it, and cut the connection before it can say so."""
    proxy.set(Mode.HOLD_REPLIES)
    submit()
    await eventually(look, until=lambda seen: seen == expected)  # type: ignore[arg-type]
    await eventually(looked(proxy.links), until=lambda links: any(link.held for link in links))
    proxy.reset()
    proxy.set(Mode.PASS)


async def test_only_a_lost_claim_drops_a_result_and_it_is_told_once(
    db: ClonedDatabase, sql: Connection
) -> None:
    async with claimer_on(db) as claimer, desk(claimer) as d:
        (claimed,) = await claimed_jobs(sql, claimer, 1)
        await sql.execute("update wakeful.instance set state = 'dead'")
        reclaim = (claimed.job.lane_id, [claimed.job.pos], claimer.owner.instance_id, None, None, 3)
        await claimer.database.fetch("reclaim_jobs", *reclaim)
        d.submit(claimed, DONE)
        await d.settled()

        assert d.landings == {claimed.job.job_id: "lost"}
        assert len(claimer.recorder.of(JOB_LOST)) == 1
        assert claimer.recorder.of(JOB_FINISHED) == []
    assert await status_of(sql, claimed.job.job_id) == "PENDING"


async def test_two_claims_of_one_job_in_one_batch_are_told_apart(db: ClonedDatabase, sql: Connection) -> None:
    async with claimer_on(db) as claimer, desk(claimer, run=False) as d:
        (former,) = await claimed_jobs(sql, claimer, 1)
        await sql.execute("update wakeful.ready set owner = 1, claim = 4711")
        await sql.execute("update wakeful.ready set owner = null, claim = null")
        (current,) = await claimer.claim()
        fates = []
        for one in (former, current):
            d.finisher.submit(
                Conclusion(holding=held(one), outcome=DONE, landed=lambda landing: fates.append(landing.fate))
            )
        over = anyio.Event()
        over.set()
        await d.finisher.run(over)

    assert sorted(fates) == ["DONE", "lost"]
    assert len(claimer.recorder.of(JOB_FINISHED)) == 1


async def test_everything_is_kept_through_an_outage_and_written_when_it_is_over(
    db: ClonedDatabase, sql: Connection, proxy: Proxy
) -> None:
    async with claimer_on(proxy.dsn(db.name)) as claimer, desk(claimer) as d:
        claimed = await claimed_jobs(sql, claimer, 50)
        proxy.set(Mode.REFUSE)
        proxy.reset()
        for number, one in enumerate(claimed):
            d.submit(one, failed(delay=60) if number % 5 == 0 else DONE)
        await claimer.recorder.seen(DATABASE_LOST)
        assert d.finisher.unsettled == 50

        proxy.set(Mode.PASS)
        await d.settled()
        assert sorted(d.landings.values()) == ["DONE"] * 40 + ["PENDING"] * 10
        assert len(claimer.recorder.of(JOB_FINISHED)) == 40
        assert len(claimer.recorder.of(JOB_RETRIED)) == 10


async def test_every_worker_that_waits_for_room_goes_on_when_there_is_some(db: ClonedDatabase) -> None:
    async with claimer_on(db) as claimer, desk(claimer, run=False) as d:
        for _ in range(CROWDED + 1):
            d.finisher.submit(Conclusion(holding=make_holding(), outcome=DONE))
        assert d.finisher.crowded
        over = anyio.Event()
        over.set()
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                for _ in range(3):
                    group.start_soon(d.finisher.room)
                await anyio.wait_all_tasks_blocked()
                await d.finisher.run(over)


async def test_a_worker_that_waits_for_room_goes_home_when_its_crew_closes(db: ClonedDatabase) -> None:
    async with claimer_on(db) as claimer, desk(claimer, run=False) as d:
        for _ in range(CROWDED + 1):
            d.finisher.submit(Conclusion(holding=make_holding(), outcome=DONE))
        crew, unused = Crew(1, Wakeup()), cast(Executing, None)
        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(Workers(executing=unused, crew=crew, finisher=d.finisher).run)
                await anyio.wait_all_tasks_blocked()
                crew.close()


async def test_it_ends_at_once_when_nothing_is_left_and_only_then(
    db: ClonedDatabase, sql: Connection
) -> None:
    async with claimer_on(db) as claimer:
        async with desk(claimer) as d:
            (claimed,) = await claimed_jobs(sql, claimer, 1)
            lock = sql.transaction()
            await lock.start()
            await sql.execute("select from wakeful.ready for update")
            d.submit(claimed, DONE)
            await eventually(looked(lambda: len(claimer.recorder.of(FLUSH_COMMITTED))))
            await lock.rollback()
        assert d.landings == {claimed.job.job_id: "DONE"}
