"""The ring of finished jobs (I17): a slot is emptied when all in it is old, and never while somebody reads it."""

from __future__ import annotations

from datetime import timedelta

import anyio
import pytest

from support.databases import ClonedDatabase, Connection
from support.factories import job_in, status_of
from support.refusals import refused

WEEK = timedelta(days=7)


@pytest.mark.case("F94")
async def test_slots_that_are_past_the_history_are_emptied_and_the_others_are_not(sql: Connection) -> None:
    await fill(sql, {-15: "7 days 12 hours", -14: "7 days 1 hour", -12: "6 days", 0: "1 hour"})

    assert [emptied for _, emptied in await expire(sql)] == [True, True]

    left = await sql.fetch("select (now() - finished_at) as age from wakeful.finished order by finished_at")
    assert [round(row["age"].total_seconds() / 3600) for row in left] == [144, 1]


async def test_a_slot_with_one_row_that_is_too_young_is_kept_whole(sql: Connection) -> None:
    await fill(sql, {-14: "7 days 1 minute"})
    await fill(sql, {-14: "6 days 23 hours"})

    assert await expire(sql) == []

    assert await sql.fetchval("select count(*) from wakeful.finished") == 2


async def test_the_slot_that_is_being_written_is_never_emptied(sql: Connection) -> None:
    await fill(sql, {0: "8 days"})

    assert await expire(sql) == []

    assert await sql.fetchval("select count(*) from wakeful.finished") == 1


@pytest.mark.case("F94", "I17")
async def test_a_slot_that_somebody_reads_is_left_and_the_others_go_on(
    db: ClonedDatabase, sql: Connection
) -> None:
    await fill(sql, {1: "8 days", -14: "7 days 1 hour"})
    read = await sql.fetchval("select slot from wakeful.finished order by finished_at limit 1")
    reader = await db.connect()
    async with reader.transaction():
        await reader.fetch(f"select * from wakeful.finished_{read}")
        with anyio.fail_after(10):
            answers = await expire(sql)
        assert dict(answers).pop(read) is False
        assert sorted(dict(answers).values()) == [False, True]
        assert await sql.fetchval("select count(*) from wakeful.finished") == 1

    assert await expire(sql) == [(read, True)]
    assert await sql.fetchval("select count(*) from wakeful.finished") == 0


@pytest.mark.case("I17")
async def test_a_finish_into_a_slot_that_is_looked_at_is_not_lost(
    db: ClonedDatabase, sql: Connection
) -> None:
    """A clock that was set back writes into an old slot: the second look, under the lock, must see it."""
    await fill(sql, {5: "8 days"})
    slot = await sql.fetchval("select slot from wakeful.finished")
    writer = await db.connect()
    async with writer.transaction():
        await fill(writer, {5: "0"})
        assert await expire(sql) == [(slot, False)]

    assert await expire(sql) == []
    assert await sql.fetchval("select count(*) from wakeful.finished") == 2


async def test_emptying_makes_and_drops_nothing(sql: Connection) -> None:
    catalogue = (
        "select oid::regclass::text from pg_class where relnamespace = 'wakeful'::regnamespace order by oid"
    )
    before = await sql.fetch(catalogue)
    await fill(sql, {1: "8 days", 2: "9 days", 3: "10 days"})

    await expire(sql)

    assert await sql.fetch(catalogue) == before
    assert await sql.fetchval("select count(*) from wakeful.finished") == 0


async def test_every_time_has_its_slot_and_a_finish_never_fails_for_the_date(sql: Connection) -> None:
    slots = await sql.fetch(
        """select distinct wakeful.finished_slot(at) as slot
           from generate_series(timestamptz '1970-01-01', '2100-01-01', '12 hours') as at order by slot"""
    )

    assert [row["slot"] for row in slots] == list(range(16))
    partitions = await sql.fetch(
        "select inhrelid from pg_inherits where inhparent = 'wakeful.finished'::regclass"
    )
    assert len(partitions) == 16
    assert (
        await sql.fetchval(
            "select count(*) from pg_class where relispartition and relname like 'finished%default%'"
        )
        == 0
    )


async def test_a_history_that_is_longer_than_the_ring_widens_its_slots(sql: Connection) -> None:
    await expire(sql, timedelta(days=28))

    assert await sql.fetchval("select finished_slot_width from wakeful.installation") == timedelta(days=2)
    await expire(sql)
    assert await sql.fetchval("select finished_slot_width from wakeful.installation") == timedelta(days=2)


@pytest.mark.parametrize(("history", "shown"), [(None, "null"), (timedelta(hours=-1), "")])
async def test_no_history_at_all_is_refused(sql: Connection, history: timedelta | None, shown: str) -> None:
    await fill(sql, {5: "8 days"})

    with refused("WK013", f"history is {shown}", hint="7 days"):
        await expire(sql, history)

    assert await sql.fetchval("select count(*) from wakeful.finished") == 1


async def test_a_job_whose_slot_was_emptied_is_past_its_retention(sql: Connection) -> None:
    await fill(sql, {5: "8 days"})
    job_id = await sql.fetchval("select job_id from wakeful.finished")

    await expire(sql)

    assert await status_of(sql, job_id) is None
    with refused("WK010", "does not exist, or is past its retention"):
        await sql.fetchval("select wakeful.cancel($1)", job_id)


async def fill(connection: Connection, ages: dict[int, str]) -> None:
    """Put one job into each slot, counted from the one that is being written now, as if it had ended this long ago."""
    for distance, age in ages.items():
        job_id = await job_in(connection, "DONE")
        await connection.execute(
            f"""update wakeful.finished
                set slot = (wakeful.finished_slot(now()) + {distance} + 16) % 16, finished_at = now() - interval '{age}'
                where job_id = $1""",
            job_id,
        )


async def expire(connection: Connection, history: timedelta | None = WEEK) -> list[tuple[int, bool]]:
    return [
        tuple(row) for row in await connection.fetch("select * from wakeful.expire_finished($1)", history)
    ]
