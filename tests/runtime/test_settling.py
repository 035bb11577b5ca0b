"""The cursor of a lane: what commits late, in whatever way, is claimed, and what is dead is not read again (I7)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import anyio
import anyio.lowlevel
import pytest

from support.claiming import claiming_of
from support.cluster import Cluster, execute, make_template
from support.databases import ClonedDatabase, Connection, cloned_database
from support.eventually import eventually, looked
from support.factories import enqueue
from support.working import Claimer, claimer_on
from wakeful.core.pace import ENOUGH_RUNS
from wakeful.core.settings import PollSettings
from wakeful.core.settling import LATE_SECONDS, Settling
from wakeful.embedded import StopMode
from wakeful.runtime.claimer import Claiming, run_claimer, take_turn
from wakeful.runtime.finding import look_everywhere
from wakeful.runtime.holdings import Holding
from wakeful.runtime.settling import Bearings, keep_bearings, sweep, tick
from wakeful.store.settling import look_at_transactions

POLL = PollSettings(min=60.0, max=60.0)


@dataclass(slots=True, kw_only=True)
class Site:
    """A claimer that looks, ticks and sweeps only when it is told to; what it claims runs at once."""

    claiming: Claiming
    claimer: Claimer
    got: list[int] = field(default_factory=list)

    @property
    def bearings(self) -> Bearings:
        """Its cursors."""
        return self.claiming.bearings

    async def turn(self) -> list[int]:
        """Look behind the cursors and claim; gives the positions of what it got."""
        self.claiming.finding.hints.everything = True
        self.claiming.finding.look_seconds = 0.0
        self.bearings.ticked_at = self.bearings.swept_at = 1e18
        await take_turn(self.claiming, POLL)
        return await self.work()

    async def work(self) -> list[int]:
        """Let the crew take what waits, and end it here."""
        positions = []
        while self.claiming.crew.waiting:
            holding = await self.claiming.crew.next()
            assert isinstance(holding, Holding)
            positions.append(holding.pos)
            self.claiming.holdings.drop(holding)
            self.claiming.crew.done()
        self.got += positions
        return positions

    async def tick(self, times: int = 1) -> None:
        """Look at the transactions."""
        for _ in range(times):
            await tick(self.bearings, self.claiming.database)

    async def start(self) -> None:
        """What a claimer does before its first look."""
        self.bearings.ticked_at = 0.0
        await keep_bearings(self.bearings, self.claiming.database)

    async def look(self) -> None:
        """Look at all lanes, and claim nothing."""
        await look_everywhere(
            self.claiming.finding, self.bearings, self.claiming.database, self.claiming.scope
        )

    async def sweep(self) -> list[int]:
        """Look behind the cursors."""
        return list(await sweep(self.bearings, self.claiming.database))

    async def cursor(self) -> int:
        """The cursor of the only lane."""
        ((_, cursor),) = self.bearings.cursors.known()
        return cursor


@asynccontextmanager
async def site(
    db: ClonedDatabase, *, late: float = LATE_SECONDS, concurrency: int = 500
) -> AsyncIterator[Site]:
    """`late`: after how many seconds a transaction that runs is passed over; 0: always."""
    async with claimer_on(db) as claimer:
        bearings = Bearings(settling=Settling(late))
        claiming = claiming_of(claimer, concurrency=concurrency, bearings=bearings)
        # Its connection is made, and the minute until the next look from the heads has begun.
        await tick(claiming.bearings, claiming.database)
        claiming.bearings.forget()
        yield Site(claiming=claiming, claimer=claimer)


async def test_a_sequence_that_nobody_has_used_has_given_out_no_position(
    db: ClonedDatabase, sql: Connection
) -> None:
    async with claimer_on(db) as claimer:
        await sql.execute("alter sequence wakeful.position restart")
        assert (await look_at_transactions(claimer.database)).position == 0

        await enqueue(sql)
        assert (await look_at_transactions(claimer.database)).position == 1


async def test_a_look_takes_its_id_after_whoever_has_a_position(db: ClonedDatabase, sql: Connection) -> None:
    async with claimer_on(db) as claimer, sql.transaction():
        await enqueue(sql)
        number = await sql.fetchval("select pg_current_xact_id()::text::bigint")
        seen = await look_at_transactions(claimer.database)

    assert seen.position == await sql.fetchval("select last_value from wakeful.position")
    assert seen.number > number
    assert number in seen.running or number >= seen.beyond


async def test_the_cursor_follows_what_is_claimed_and_settled(db: ClonedDatabase, sql: Connection) -> None:
    for _ in range(3):
        await enqueue(sql)
    async with site(db) as here:
        assert len(await here.turn()) == 3
        assert await here.cursor() == 0  # nothing is settled yet

        await here.tick(2)
        await enqueue(sql)
        (last,) = await here.turn()
        assert await here.cursor() == last - 1

        await here.tick(2)
        assert await here.sweep() == []
        assert await here.cursor() == last
        assert here.bearings.restless_seconds is None


@pytest.mark.parametrize("how", ["plain", "savepoint", "prepared"])
async def test_a_job_that_commits_late_is_claimed_by_the_next_turn(
    db: ClonedDatabase, sql: Connection, how: str
) -> None:
    writer = await db.connect()
    async with site(db) as here:
        await here.tick()
        commit = await begun(writer, how)
        await enqueue(sql)
        assert len(await here.turn()) == 1
        await here.tick(3)
        await enqueue(sql)
        assert len(await here.turn()) == 1

        await commit()
        assert len(await here.turn()) == 1


@pytest.mark.case("I7")
@pytest.mark.parametrize("how", ["plain", "savepoint", "prepared"])
async def test_one_that_was_passed_over_is_swept_for_when_it_has_committed(
    db: ClonedDatabase, sql: Connection, how: str
) -> None:
    writer = await db.connect()
    async with site(db, late=0.0) as here:
        await here.tick()
        commit = await begun(writer, how)
        await enqueue(sql)
        await here.tick(2)
        (claimed,) = await here.turn()
        assert await here.cursor() == claimed  # behind the row that is not committed
        assert await here.sweep() == []

        await commit()
        assert await here.turn() == []
        await here.tick()
        assert len(await here.sweep()) == 1
        (late,) = await here.turn()
        assert late < claimed
    assert await sql.fetchval("select count(*) from wakeful.ready where owner is null") == 0


async def begun(writer: Connection, how: str) -> Callable[[], Awaitable[object]]:
    """Enqueue a job that is not committed; gives what commits it."""
    transaction = writer.transaction()
    await transaction.start()
    if how == "savepoint":
        async with writer.transaction():
            await enqueue(writer)
    else:
        await enqueue(writer, notify=how != "prepared")
    if how != "prepared":
        return transaction.commit
    name = f"late_{random.getrandbits(40)}"
    await writer.execute(f"prepare transaction '{name}'")

    async def commit() -> None:
        await writer.execute(f"commit prepared '{name}'")

    return commit


@pytest.mark.parametrize("head", ["running", "dead"])
async def test_a_daemon_that_starts_claims_from_behind_what_runs_or_is_dead_at_the_head(
    db: ClonedDatabase, sql: Connection, head: str
) -> None:
    for _ in range(3):
        await enqueue(sql)
    reader = await db.connect()
    async with reader.transaction(isolation="repeatable_read"), claimer_on(db) as other, site(db) as here:
        await reader.fetchval("select count(*) from wakeful.ready")
        claimed = await other.claim(limit=2)
        if head == "dead":
            assert len(await other.finish(*claimed)) == 2
        await here.start()
        await here.look()

        assert await here.cursor() == await sql.fetchval("select max(pos) - 1 from wakeful.ready")
        assert len(await here.turn()) == 1
        assert await here.sweep() == []


@pytest.mark.case("I7")
async def test_what_is_not_settled_at_the_start_lies_behind_no_cursor_that_a_look_sets(
    db: ClonedDatabase, sql: Connection
) -> None:
    writer = await db.connect()
    async with site(db) as here:
        transaction = writer.transaction()
        await transaction.start()
        await enqueue(writer)
        await enqueue(sql)
        await here.start()
        await here.look()  # sees the second only

        await transaction.commit()
        assert len(await here.turn()) == 2


@pytest.mark.case("I7")
async def test_what_was_passed_over_before_a_look_set_the_cursor_is_swept_for_when_it_has_committed(
    db: ClonedDatabase, sql: Connection
) -> None:
    writer = await db.connect()
    async with site(db, late=0.0) as here:
        transaction = writer.transaction()
        await transaction.start()
        await enqueue(writer)
        await enqueue(sql)
        await here.tick(2)
        await here.look()
        assert await here.cursor() > 0

        await transaction.commit()
        await here.tick()
        assert len(await here.sweep()) == 1
        assert len(await here.turn()) == 2


async def test_many_jobs_of_one_late_transaction_are_claimed_from_behind_the_cursor(
    db: ClonedDatabase, sql: Connection
) -> None:
    writer = await db.connect()
    async with site(db, late=0.0) as here:
        await here.tick()
        transaction = writer.transaction()
        await transaction.start()
        await writer.execute(
            """select wakeful.enqueue_many(jsonb_agg('{"job_type": "COLLECT"}'::jsonb), false)
               from generate_series(1, 3000)"""
        )
        await enqueue(sql)
        await here.tick(2)
        assert len(await here.turn()) == 1

        await transaction.commit()
        await here.tick()
        await here.sweep()
        while await here.turn():
            await here.tick()
    assert len(set(here.got)) == 3001


async def test_a_position_that_is_taken_before_the_transaction_has_its_id_is_stepped_over(
    db: ClonedDatabase, sql: Connection
) -> None:
    """Why every statement of ours has the id first: only the look once a minute finds such a job."""
    writer = await db.connect()
    async with site(db) as here:
        await enqueue(sql)
        await here.tick(2)
        await here.turn()
        async with writer.transaction():
            early = await writer.fetchval("select nextval('wakeful.position')")
            await here.tick(2)
            await enqueue(sql)
            await here.tick(2)
            await here.turn()
            await here.sweep()
            await enqueue(writer)
            await writer.execute("update wakeful.ready set pos = $1 where owner is null", early)
        await here.tick(2)
        assert (await here.sweep(), await here.turn()) == ([], [])

        here.bearings.full_look_at -= 60.0
        assert await here.turn() == [early]


@pytest.mark.parametrize("ended", ["rollback", "commit"])
async def test_a_row_that_was_locked_when_a_claim_passed_is_found_by_the_sweep(
    db: ClonedDatabase, sql: Connection, ended: str
) -> None:
    locked = (await enqueue(sql)).job_id
    await enqueue(sql)
    locker = await db.connect()
    async with site(db, late=0.0) as here:
        await here.tick(2)
        transaction = locker.transaction()
        await transaction.start()
        await locker.execute("select from wakeful.ready where job_id = $1 for update", locked)
        (claimed,) = await here.turn()
        assert await here.cursor() == claimed

        await (transaction.rollback() if ended == "rollback" else transaction.commit())
        await here.tick()
        assert len(await here.sweep()) == 1
        assert await here.turn() == [claimed - 1]


async def test_a_row_that_stays_locked_is_tried_again_and_holds_up_nobody(
    db: ClonedDatabase, sql: Connection
) -> None:
    locked = (await enqueue(sql)).job_id
    locker = await db.connect()
    async with site(db, late=0.0) as here, locker.transaction():
        await here.tick(2)
        await locker.execute("select from wakeful.ready where job_id = $1 for update", locked)
        for _ in range(3):
            await enqueue(sql)
            await here.tick(2)
            assert len(await here.turn()) == 1
            assert len(await here.sweep()) == 1  # it is seen, locked as it is
    assert len(here.got) == 3


async def test_a_job_that_somebody_freed_by_hand_is_found_by_the_look_from_the_heads(
    db: ClonedDatabase, sql: Connection
) -> None:
    """Nothing of ours does that; the look once a minute is there for what nobody has thought of."""
    for _ in range(2):
        await enqueue(sql)
    async with site(db) as here:
        await here.tick(2)
        first, _ = await here.turn()
        await here.tick(2)
        await here.sweep()
        await sql.execute("update wakeful.ready set owner = null, claim = null where pos = $1", first)
        await here.tick(2)
        assert await here.sweep() == []
        assert await here.turn() == []

        here.bearings.full_look_at -= 60.0
        assert await here.turn() == [first]


async def test_with_a_new_connection_every_cursor_begins_anew(db: ClonedDatabase, sql: Connection) -> None:
    """After a crash of the server positions may go backwards, and not all of its lives can be told apart (I4)."""
    async with site(db) as here:
        await enqueue(sql)
        await here.tick(2)
        (claimed,) = await here.turn()
        assert await here.cursor() == claimed
        await sql.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'wakeful'"
        )
        await eventually(lambda: is_usable(here))
        await here.turn()

        assert here.bearings.cursors.known() == []
        assert here.bearings.settling.low_water == 0


@pytest.mark.case("I6")
async def test_after_a_crash_that_forgot_claims_they_are_made_again_from_behind_the_former_cursor(
    own_cluster: Cluster,
) -> None:
    await make_template(own_cluster)
    await execute(own_cluster.dsn(), "alter system set wal_writer_delay = '10s'")
    await execute(own_cluster.dsn(), "select pg_reload_conf()")
    async with cloned_database(own_cluster) as db, site(db) as here:
        sql = await db.connect()
        for _ in range(15):
            await enqueue(sql)
        for _ in range(ENOUGH_RUNS):
            here.claiming.pace.ran("COLLECT", 0.001)  # short: its claims commit asynchronously
        await here.tick(2)
        first = await here.turn()
        assert await here.cursor() == first[-1]

        own_cluster.postmaster.stop(StopMode.IMMEDIATE)
        own_cluster.postmaster.start()
        await eventually(lambda: is_usable(here))
        again = await here.turn()
        assert len(again) == 15, "the server was to forget the claims"
        assert again == first


async def is_usable(here: Site) -> bool:
    try:
        await look_at_transactions(here.claiming.database)
    except Exception:  # noqa: BLE001 - whatever it is, it is asked again
        return False
    return True


async def test_positions_that_went_backwards_forget_every_cursor(db: ClonedDatabase, sql: Connection) -> None:
    async with site(db) as here:
        for _ in range(3):
            await enqueue(sql)
        await here.tick(2)
        await here.turn()
        await sql.execute("delete from wakeful.ready")
        await sql.execute("alter sequence wakeful.position restart")
        await enqueue(sql)
        await here.tick()

        assert here.bearings.cursors.known() == []
        assert len(await here.turn()) == 1


async def test_a_quiet_claimer_finds_what_a_transaction_that_it_passed_over_left_without_being_told(
    db: ClonedDatabase, sql: Connection
) -> None:
    writer, stop = await db.connect(), anyio.Event()
    transaction = writer.transaction()
    async with site(db, late=0.0) as here, anyio.create_task_group() as group:
        await transaction.start()
        early = (await enqueue(writer, notify=False)).job_id
        group.start_soon(partial(run_claimer, here.claiming, stop, poll=POLL, turned=lambda: None))
        await enqueue(sql)
        here.claiming.finding.hints.hear(None)
        here.claiming.bell.ring()
        await eventually(looked(lambda: len(here.claiming.holdings)))
        await eventually(here.cursor, until=lambda cursor: cursor >= 2)

        await transaction.commit()
        await eventually(looked(lambda: len(here.claiming.holdings)), until=lambda count: count == 2)
        assert early in {one.job_id for one in here.claiming.holdings.snapshot()}

        # And when nothing is left to see it asks nothing any more but its polls.
        await eventually(looked(lambda: here.bearings.restless_seconds is None))
        stop.set()


@pytest.mark.case("I7")
@pytest.mark.parametrize("seed", range(3))
async def test_of_many_writers_at_random_no_job_is_lost_and_none_is_claimed_twice(
    db: ClonedDatabase, sql: Connection, seed: int
) -> None:
    """Two claimers that pass over every transaction at once, so that all that commits late lies behind a cursor."""
    created, over = list[int](), anyio.Event()
    async with site(db, late=0.0) as one, site(db, late=0.0) as other:

        async def write(number: int) -> None:
            chance, writer = random.Random(seed * 100 + number), await db.connect()
            for _ in range(25):
                created.append(await write_at_random(writer, chance))

        async def claim(here: Site) -> None:
            while not over.is_set():
                await here.tick()
                await here.sweep()
                await here.turn()
                await anyio.lowlevel.checkpoint()  # calls to the database are shielded: here it can end

        async with anyio.create_task_group() as claimers:
            claimers.start_soon(claim, one)
            claimers.start_soon(claim, other)
            async with anyio.create_task_group() as writers:
                for number in range(8):
                    writers.start_soon(write, number)
            left = "select count(*) from wakeful.ready where owner is null"
            await eventually(lambda: sql.fetchval(left), until=lambda count: count == 0)
            over.set()

    counted = Counter(one.got + other.got)
    assert sum(created) == len(counted) > 100
    assert max(counted.values()) == 1
    assert await sql.fetchval("select max(attempts) from wakeful.ready") == 1


async def write_at_random(writer: Connection, chance: random.Random) -> int:
    """One transaction with a few jobs, some in savepoints that are rolled back; gives how many were committed."""
    transaction, jobs = writer.transaction(), 0
    await transaction.start()
    for _ in range(chance.randrange(1, 4)):
        inner = writer.transaction()
        await inner.start()
        await enqueue(writer, chance.choice(["A", "B"]))
        if chance.random() < 0.2:
            await inner.rollback()
        else:
            await inner.commit()
            jobs += 1
        await writer.fetchval("select pg_sleep($1)", chance.choice([0.0, 0.0, 0.005, 0.05]))
    if chance.random() < 0.2:
        await transaction.rollback()
        return 0
    await transaction.commit()
    return jobs
