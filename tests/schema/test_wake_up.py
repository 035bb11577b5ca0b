"""What an enqueue tells the daemons (I18): its lane, when it commits, unless the lane is hot or nobody wants it."""

from __future__ import annotations

import pytest

from support.databases import ClonedDatabase, Connection
from support.factories import enqueue
from support.refusals import refused


class Ear:
    """Listens on a connection of its own. `heard` gives what was told up to now, in order."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._told: list[str] = []

    async def open(self) -> None:
        await self._connection.add_listener("wakeful", self._note)

    async def heard(self) -> list[str]:
        # A notification to ourselves comes after all that were sent before: nothing is on its way any more.
        await self._connection.execute("notify wakeful, 'end'")
        told = [text for text in self._told if text != "end"]
        self._told.clear()
        return told

    def _note(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        self._told.append(str(payload))


@pytest.fixture
async def ear(db: ClonedDatabase) -> Ear:
    ear = Ear(await db.connect())
    await ear.open()
    return ear


async def test_an_enqueue_tells_its_lane_when_it_commits(sql: Connection, ear: Ear) -> None:
    transaction = sql.transaction()
    await transaction.start()
    await enqueue(sql)
    await enqueue(sql)
    lane = await sql.fetchval("select distinct lane_id from wakeful.ready")

    assert await ear.heard() == []
    await transaction.commit()

    assert await ear.heard() == [str(lane)]


async def test_a_rollback_tells_nobody(sql: Connection, ear: Ear) -> None:
    transaction = sql.transaction()
    await transaction.start()
    await enqueue(sql)
    await transaction.rollback()

    assert await ear.heard() == []


@pytest.mark.case("F05")
async def test_a_bulk_call_tells_each_lane_once(sql: Connection, ear: Ear) -> None:
    await sql.execute(
        """select * from wakeful.enqueue_many((
               select jsonb_agg(jsonb_build_object('job_type', 'T', 'queue', 'q' || n % 3))
               from generate_series(1, 300) n))"""
    )

    lanes = [str(row[0]) for row in await sql.fetch("select distinct lane_id from wakeful.ready")]
    assert sorted(await ear.heard()) == sorted(lanes)


@pytest.mark.case("F05")
@pytest.mark.parametrize("hot", [True, False])
async def test_a_hot_lane_is_polled_and_needs_no_telling(sql: Connection, ear: Ear, hot: bool) -> None:
    await fold(sql, hot_until="clock_timestamp() + interval '1 minute'" if hot else "clock_timestamp()")

    await enqueue(sql)
    await sql.execute("""select * from wakeful.enqueue_many('[{"job_type": "COLLECT"}]')""")

    assert len(await ear.heard()) == (0 if hot else 2)
    assert await sql.fetchval("select count(*) from wakeful.lane_seen") == 0


@pytest.mark.case("I18")
async def test_a_lane_that_cooled_down_in_a_long_transaction_is_told(sql: Connection, ear: Ear) -> None:
    async with sql.transaction():
        await sql.execute("select now()")
        await fold(sql, hot_until="clock_timestamp() + interval '2 milliseconds'")
        await sql.execute("select pg_sleep(0.01)")
        await enqueue(sql)

    assert len(await ear.heard()) == 1


@pytest.mark.case("I18")
async def test_a_job_due_soon_arms_the_timer_even_in_a_hot_lane(sql: Connection, ear: Ear) -> None:
    await fold(sql, hot_until="'infinity'")
    soon = await sql.fetchval("select clock_timestamp() + interval '10 seconds'")

    await enqueue(sql, run_after=soon)
    single = await ear.heard()
    await sql.fetch(
        """select * from wakeful.enqueue_many(
               jsonb_build_array(jsonb_build_object('job_type', 'COLLECT', 'run_after', $1::timestamptz)))""",
        soon,
    )

    assert single == [""]  # no lane: it is for the timer
    assert await ear.heard() == [""]


async def test_a_job_that_became_due_during_its_long_transaction_tells_its_lane(
    sql: Connection, ear: Ear
) -> None:
    async with sql.transaction():
        began, now = await sql.fetchrow("select now(), clock_timestamp()")  # type: ignore[misc]
        assert now > began
        await sql.fetch(
            """select * from wakeful.enqueue_many(
                   jsonb_build_array(jsonb_build_object('job_type', 'COLLECT', 'run_after', $1::timestamptz)))""",
            now,
        )
        lane = await sql.fetchval("select lane_id from wakeful.ready")

    assert await ear.heard() == [str(lane)]


async def test_a_job_due_much_later_wakes_nobody(sql: Connection, ear: Ear) -> None:
    await enqueue(sql, run_after=await sql.fetchval("select now() + interval '1 hour'"))

    assert await ear.heard() == []


async def test_notify_false_tells_nobody(sql: Connection, ear: Ear) -> None:
    await enqueue(sql, notify=False)
    await sql.fetch("""select * from wakeful.enqueue_many('[{"job_type": "T"}]', notify => false)""")

    assert await ear.heard() == []
    assert await sql.fetchval("select count(*) from wakeful.ready") == 2


async def test_a_two_phase_producer_can_enqueue_without_a_notification_only(
    sql: Connection, db: ClonedDatabase
) -> None:
    await sql.execute("begin")
    await enqueue(sql)
    with refused("0A000", "cannot PREPARE a transaction that has executed .*NOTIFY"):
        await sql.execute("prepare transaction 'loud'")
    await sql.execute("rollback")

    await sql.execute("begin")
    await enqueue(sql, notify=False, dedupe_key="k")
    await sql.execute(f"prepare transaction '{db.name}'")
    assert await sql.fetchval("select count(*) from wakeful.ready") == 0
    await sql.execute(f"commit prepared '{db.name}'")

    assert await sql.fetchval("select count(*) from wakeful.ready") == 1


async def test_a_requeue_tells_its_lane(sql: Connection, ear: Ear) -> None:
    made = await enqueue(sql, notify=False)
    await sql.fetchval("select wakeful.cancel($1)", made.job_id)
    assert await ear.heard() == []

    await sql.fetchval("select wakeful.requeue($1)", made.job_id)

    assert await ear.heard() == [str(await sql.fetchval("select lane_id from wakeful.ready"))]


@pytest.mark.case("F04")
async def test_thousands_of_lanes_fit_into_one_transactions_notifications(sql: Connection, ear: Ear) -> None:
    await sql.execute(
        """select * from wakeful.enqueue_many((
               select jsonb_agg(jsonb_build_object('job_type', 'T', 'queue', 'q' || n))
               from generate_series(1, 4000) n))"""
    )

    assert len(await ear.heard()) == 4_000


async def fold(connection: Connection, *, hot_until: str) -> None:
    """Make the lane of COLLECT known, as a daemon does."""
    await connection.execute(
        f"""insert into wakeful.lane (lane_id, queue, priority, job_type, suspect, hot_until)
            values (wakeful.lane_id('default', 'normal', 'COLLECT', null, false), 'default', 'normal', 'COLLECT',
                    false, {hot_until})"""
    )
