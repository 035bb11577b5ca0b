"""Duties without a leader: done once in a fleet, never stalled by a clock, and right even when two do them (I22)."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator

import anyio
import pytest

from support.databases import ClonedDatabase, Connection
from support.dispatching import Heard, heard, store_of
from support.eventually import blocked
from support.factories import enqueue
from support.loops import running
from support.owners import register, silence
from support.proxy import Proxy
from wakeful.core.settings import DatabaseSettings
from wakeful.errors import DataRefused, StoreBusy, StoreError
from wakeful.runtime.duties import Duty, fold_duty, job_types_duty, run_duties
from wakeful.runtime.promoter import promote_due
from wakeful.runtime.reaper import backstop_duty, reap_once
from wakeful.runtime.unserved import unserved_duty
from wakeful.runtime.watch import ServerClock
from wakeful.store import instances, upkeep
from wakeful.store.database import Database, open_database
from wakeful.store.gauges import read_gauges
from wakeful.store.identity import raise_position
from wakeful.store.statements import statements
from wakeful.telemetry.events import DUTY_FAILED, DUTY_TAKEN


@pytest.fixture
def said() -> Heard:
    return heard()


@pytest.fixture
async def database(db: ClonedDatabase, said: Heard) -> AsyncIterator[Database]:
    async with store_of(db, said) as opened:
        yield opened


async def test_a_duty_is_taken_once_an_interval(sql: Connection, database: Database) -> None:
    assert await upkeep.take_duty(database, "prune", 60.0)
    assert not await upkeep.take_duty(database, "prune", 60.0)

    await sql.execute("update wakeful.duty set next_at = now() where name = 'prune'")
    assert await upkeep.take_duty(database, "prune", 60.0)


async def test_of_many_instances_one_takes_it(db: ClonedDatabase, database: Database) -> None:
    taken: list[bool] = []

    async def one(store: Database) -> None:
        taken.append(await upkeep.take_duty(store, "prune", 60.0))

    async with store_of(db, heard()) as other, anyio.create_task_group() as group:
        for store in (database, other) * 4:
            group.start_soon(one, store)

    assert sorted(taken) == [False] * 7 + [True]


@pytest.mark.case("I22")
async def test_while_one_takes_it_another_neither_waits_nor_takes_it(
    db: ClonedDatabase, database: Database
) -> None:
    taker = await db.connect()
    async with taker.transaction():
        await taker.execute(
            "update wakeful.duty set next_at = now() + interval '1 minute' where name = 'prune'"
        )
        assert not await upkeep.take_duty(database, "prune", 60.0)


@pytest.mark.case("F29", "I22")
async def test_a_clock_that_was_set_back_stalls_no_duty(sql: Connection, database: Database) -> None:
    assert await upkeep.take_duty(database, "prune", 60.0)
    # Two hours later by the old clock, which was two hours fast.
    await sql.execute("update wakeful.duty set next_at = now() + interval '2 hours' where name = 'prune'")

    assert await upkeep.take_duty(database, "prune", 60.0)
    assert not await upkeep.take_duty(database, "prune", 60.0)


async def test_an_unknown_duty_is_nobodys(database: Database) -> None:
    assert not await upkeep.take_duty(database, "no_such_duty", 60.0)


async def test_a_duty_whose_row_is_missing_gets_one(sql: Connection, database: Database, said: Heard) -> None:
    await sql.execute("delete from wakeful.duty")
    done = anyio.Event()

    async def perform(_stop: anyio.Event) -> None:
        done.set()

    duty = Duty(name="new_in_this_version", interval=60.0, perform=perform)
    async with running(lambda stop: run_duties(database, stop, [duty], interval=0.05)):
        with anyio.fail_after(30):
            await done.wait()

    assert said.recorder.of(DUTY_TAKEN, duty="new_in_this_version")


async def test_two_instances_share_the_work(db: ClonedDatabase, database: Database) -> None:
    """With an interval that does not end in this test, each duty is done once, by one of them."""
    done: Counter[str] = Counter()
    both = anyio.Event()

    def duties(names: str) -> list[Duty]:
        def counted(name: str) -> Duty:
            async def perform(_stop: anyio.Event) -> None:
                done[name] += 1
                if len(done) == len(names):
                    both.set()

            return Duty(name=name, interval=3600.0, perform=perform)

        return [counted(name) for name in names]

    async with (
        store_of(db, heard()) as other,
        running(lambda stop: run_duties(database, stop, duties("abcd"), interval=0.01)),
        running(lambda stop: run_duties(other, stop, duties("abcd"), interval=0.01)),
    ):
        with anyio.fail_after(30):
            await both.wait()

    assert done == Counter("abcd")


@pytest.mark.parametrize(
    "trouble", [StoreBusy("a lock stands in the way"), DataRefused("a row is out of range")]
)
async def test_a_duty_that_meets_a_lock_or_a_bad_row_stops_no_other(
    database: Database, said: Heard, trouble: StoreError
) -> None:
    done = anyio.Event()

    async def meets_trouble(_stop: anyio.Event) -> None:
        raise trouble

    async def perform(_stop: anyio.Event) -> None:
        done.set()

    duties = [
        Duty(name="a", interval=60.0, perform=meets_trouble),
        Duty(name="b", interval=60.0, perform=perform),
    ]
    async with running(lambda stop: run_duties(database, stop, duties, interval=0.05)):
        with anyio.fail_after(30):
            await done.wait()

    assert said.recorder.of(DUTY_FAILED, duty="a")


async def test_an_outage_only_delays(db: ClonedDatabase, said: Heard, proxy: Proxy) -> None:
    runs: list[int] = []
    twice = anyio.Event()

    async def perform(_stop: anyio.Event) -> None:
        runs.append(len(runs))
        proxy.reset()
        if len(runs) == 2:
            twice.set()

    duty = Duty(name="a", interval=0.01, perform=perform)
    async with (
        store_of(db, said, proxy=proxy) as through,
        running(lambda stop: run_duties(through, stop, [duty], interval=0.01)),
    ):
        with anyio.fail_after(30):
            await twice.wait()


async def test_no_duty_begins_after_the_stop(database: Database) -> None:
    begun: list[str] = []

    async def perform(stop: anyio.Event) -> None:
        begun.append("a")
        stop.set()

    duties = [
        Duty(name="a", interval=60.0, perform=perform),
        Duty(name="b", interval=60.0, perform=perform),
    ]
    stop = anyio.Event()
    with anyio.fail_after(30):
        await run_duties(database, stop, duties)

    assert begun == ["a"]


# I10: lanes are folded, and no producer waits for another.


async def test_lanes_that_producers_met_are_folded_once(sql: Connection, database: Database) -> None:
    for _ in range(3):
        await enqueue(sql, queue="a")
        await enqueue(sql, queue="b", limit_key="shared")
    # Twice each, as two producers append that do not see one another's.
    await sql.execute("insert into wakeful.lane_seen select * from wakeful.lane_seen")
    assert await sql.fetchval("select count(*) from wakeful.lane_seen") == 4

    await fold_duty(database).perform(anyio.Event())

    rows = await sql.fetch("select queue, limit_key, lane_id from wakeful.lane order by queue")
    assert [(row["queue"], row["limit_key"]) for row in rows] == [("a", None), ("b", "shared")]
    assert await sql.fetchval("select count(*) from wakeful.lane_seen") == 0
    assert {row["lane_id"] for row in rows} == {
        row["lane_id"] for row in await sql.fetch("select lane_id from wakeful.ready")
    }
    await enqueue(sql, queue="a")
    assert await sql.fetchval("select count(*) from wakeful.lane_seen") == 0


async def test_two_producers_with_two_new_lanes_neither_wait_nor_deadlock(
    db: ClonedDatabase, sql: Connection, database: Database
) -> None:
    first, second = await db.connect(), await db.connect()
    async with (
        first.transaction(isolation="repeatable_read"),
        second.transaction(isolation="repeatable_read"),
    ):
        with anyio.fail_after(30):
            await enqueue(first, queue="a")
            await enqueue(second, queue="b")
            await enqueue(first, queue="b")
            await enqueue(second, queue="a")
            # Nor do they stand in the way of the fold, which leaves what it can't see for the next time.
            await fold_duty(database).perform(anyio.Event())

    await fold_duty(database).perform(anyio.Event())
    assert await sql.fetchval("select count(*) from wakeful.lane") == 2


async def test_two_folds_at_once_lose_nothing(
    db: ClonedDatabase, sql: Connection, database: Database
) -> None:
    for number in range(40):
        await enqueue(sql, queue=f"q{number}")
    async with store_of(db, heard()) as other, anyio.create_task_group() as group:
        group.start_soon(fold_duty(database).perform, anyio.Event())
        group.start_soon(fold_duty(other).perform, anyio.Event())
    await fold_duty(database).perform(anyio.Event())

    assert await sql.fetchval("select count(*) from wakeful.lane") == 40


# I14: the fleet-wide pass, whatever the owners say.


@pytest.mark.case("I14")
async def test_a_job_far_past_its_deadline_is_taken_even_from_an_owner_that_beats(
    sql: Connection, database: Database
) -> None:
    owner = await register(database)
    for queue in ("in_time", "late", "far_too_late"):
        await enqueue(sql, queue=queue)
    held = {job.queue: job for job in await owner.claim()}
    # A deadline of an hour, one more as its grace, and the minute of the backstop.
    for queue, past in (("late", "1 hour 59 seconds"), ("far_too_late", "1 hour 61 seconds")):
        await sql.execute(
            "update wakeful.ready set deadline_at = now() - $2::text::interval where queue = $1", queue, past
        )
    assert await owner.beat()

    await backstop_duty(database, grace=60.0).perform(anyio.Event())

    assert await sql.fetchval("select array_agg(queue) from wakeful.ready where owner is null") == [
        "far_too_late"
    ]
    row = await sql.fetchrow("select last_error, lost, attempts from wakeful.ready where owner is null")
    assert row is not None
    assert "lease-expired reclaim" in row["last_error"]
    assert "past its deadline" in row["last_error"]
    assert (row["lost"], row["attempts"]) == (1, 0)
    assert not await owner.finish(held["far_too_late"])
    assert await owner.finish(held["late"])


async def test_a_jump_of_the_servers_clock_takes_nothing_from_an_owner_that_beats(
    sql: Connection, database: Database
) -> None:
    owner, clock = await register(database), ServerClock()
    await enqueue(sql)
    (job,) = await owner.claim()
    clock.look(0.0, asked_at=0.0, answered_at=0.0)
    clock.look(10805.0, asked_at=5.0, answered_at=5.0)  # three hours ahead
    await sql.execute("update wakeful.ready set deadline_at = now() - interval '2 hours'")

    await backstop_duty(database, clock=clock).perform(anyio.Event())

    assert await owner.finish(job)


async def test_jobs_whose_owner_has_no_row_are_found(sql: Connection, database: Database) -> None:
    owner = await register(database)
    await enqueue(sql)
    await owner.claim()
    await sql.execute("delete from wakeful.instance")

    await backstop_duty(database).perform(anyio.Event())

    assert await sql.fetchval("select lost from wakeful.ready where owner is null") == 1


# I24: two versions publish one job type.


async def publish(database: Database, job_hash: str, *, max_attempts: int) -> None:
    declaration = {
        "queue": "default",
        "priority": "normal",
        "max_attempts": max_attempts,
        "deadline": 60,
        "lease": 30,
        "subject_path": None,
        "secret_paths": [],
        "limit_key": None,
        "owner": None,
        "history": True,
        "steps": [],
    }
    await instances.publish(database, [{"job_type": "COLLECT", "hash": job_hash, "declaration": declaration}])


@pytest.mark.case("I24")
async def test_an_old_version_that_restarts_does_not_take_its_declaration_back_into_force(
    sql: Connection, database: Database
) -> None:
    in_force = "select hash from wakeful.job_type where job_type = 'COLLECT'"
    old = await register(database, "old", serves={"COLLECT": "old"})
    await publish(database, "old", max_attempts=3)
    new = await register(database, "new", serves={"COLLECT": "new"})
    await publish(database, "new", max_attempts=7)
    assert await sql.fetchval(in_force) == "new"

    for _ in range(2):  # a pod in a crash loop
        await instances.retire(database, old.pair)
        old = await register(database, "old", serves={"COLLECT": "old"})
        await publish(database, "old", max_attempts=3)
        assert await sql.fetchval(in_force) == "new"

    # Once nobody publishes the new one any more, the old one is in force again, by the duty.
    await instances.retire(database, new.pair)
    await job_types_duty(database).perform(anyio.Event())
    assert await sql.fetchval(in_force) == "old"

    # And when nobody publishes any, the last one in force stays.
    await instances.retire(database, old.pair)
    await job_types_duty(database).perform(anyio.Event())
    assert await sql.fetchval(in_force) == "old"


async def test_refreshing_at_once_does_not_deadlock(
    db: ClonedDatabase, sql: Connection, database: Database
) -> None:
    await register(database, serves={"COLLECT": "hash"})
    await publish(database, "hash", max_attempts=3)
    await sql.execute("update wakeful.job_type set hash = 'another'")
    holder = await db.connect()
    waiter = await db.connect()
    async with anyio.create_task_group() as group:
        transaction = holder.transaction()
        await transaction.start()
        await holder.execute("update wakeful.job_type set hash = 'held' where job_type = 'COLLECT'")
        group.start_soon(waiter.fetch, statements()["refresh_job_types"])
        await blocked(sql, waiter, by=holder)
        await transaction.commit()

    assert await sql.fetchval("select hash from wakeful.job_type") == "hash"


async def test_a_worker_may_do_all_of_it(db: ClonedDatabase, sql: Connection, said: Heard) -> None:
    """Every loop as a role that has wakeful_worker and nothing else."""
    await sql.execute("create role worker_of_duties_test login in role wakeful_worker")
    try:
        settings = DatabaseSettings(dsn=db.dsn_as("worker_of_duties_test"))
        async with open_database(settings, said.telemetry) as database:
            owner = await register(database)
            await enqueue(sql, "AI_CHECK", queue="other", dedupe_key="k", max_attempts=1)
            await unserved_duty(database, grace=0.0).perform(anyio.Event())
            await enqueue(sql, queue="a", dedupe_key="l")
            await owner.claim()
            await silence(sql, owner, 60.0)
            assert len(await reap_once(database)) == 1
            await enqueue(sql, run_after=await sql.fetchval("select now() + interval '1 hour'"))
            await sql.execute("update wakeful.scheduled set run_after = now()")
            assert (await promote_due(database)).jobs == 1
            for duty in (fold_duty(database), job_types_duty(database), backstop_duty(database)):
                await duty.perform(anyio.Event())
            assert await raise_position(database) is None
            assert await upkeep.take_duty(database, "prune", 60.0)
            assert await read_gauges(database, cap=10)
        assert await sql.fetchval("select count(*) from wakeful.dead") == 1
    finally:
        await sql.execute("drop role worker_of_duties_test")
