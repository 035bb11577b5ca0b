"""Job types that nobody serves fail loudly, within their attempts, without an owner, and never as a success (I9)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import anyio
import pytest

from support.databases import ClonedDatabase, Connection
from support.dispatching import Heard, heard, store_of
from support.factories import enqueue, job_in, status_of
from support.loops import running
from support.owners import Owner, register
from wakeful.core.settings import UnknownTypes
from wakeful.runtime.duties import run_duties
from wakeful.runtime.unserved import BATCH, unserved_duty
from wakeful.store import instances, lanes
from wakeful.store.database import Database
from wakeful.telemetry.events import JOB_STRANDED, UNKNOWN_TYPE_FAILED


@pytest.fixture
def said() -> Heard:
    return heard()


@pytest.fixture
async def database(db: ClonedDatabase, said: Heard) -> AsyncIterator[Database]:
    async with store_of(db, said) as opened:
        yield opened


@pytest.fixture
async def owner(database: Database) -> Owner:
    """A live instance that serves COLLECT."""
    return await register(database)


async def check(database: Database, *, grace: float = 0.0, unknown_types: UnknownTypes = "fail") -> None:
    await unserved_duty(database, grace=grace, unknown_types=unknown_types).perform(anyio.Event())


@pytest.mark.case("I9")
async def test_it_fails_loudly_as_one_attempt_and_runs_again_later(
    sql: Connection, database: Database, owner: Owner, said: Heard
) -> None:
    await enqueue(sql, "AI_CHECK")
    await check(database)

    row = await sql.fetchrow("select * from wakeful.scheduled")
    assert row is not None
    assert (row["attempts"], row["run_no"], row["lost"], row["moved_by"]) == (1, 1, 0, None)
    assert row["last_error"] == 'UnknownJobType: no live instance serves job type "AI_CHECK"'
    (entry,) = json.loads(row["errors"])
    assert (entry["type"], entry["attempt"], entry["run_no"]) == ("UnknownJobType", 1, 1)
    delay = await sql.fetchval("select extract(epoch from run_after - now())::float from wakeful.scheduled")
    assert 3.0 < delay <= 5.0
    assert said.recorder.of(UNKNOWN_TYPE_FAILED, job_type="AI_CHECK", jobs=1, dead=0)


async def test_when_its_attempts_are_spent_it_is_dead_with_its_alert(
    sql: Connection, database: Database, owner: Owner, said: Heard
) -> None:
    job_id = (await enqueue(sql, "AI_CHECK", max_attempts=1, subject="berlin", dedupe_key="k")).job_id
    await check(database)

    assert await status_of(sql, job_id) == "DEAD"
    assert await sql.fetchval("select cause from wakeful.dead") == "attempts"
    assert (
        await sql.fetchval("select dedupe_key from wakeful.alert_outbox")
        == "job_dead:AI_CHECK:UnknownJobType"
    )
    assert await sql.fetchval("select wakeful.find_active('k')") is None
    assert said.recorder.of(UNKNOWN_TYPE_FAILED, job_type="AI_CHECK", jobs=1, dead=1)


async def test_what_somebody_serves_is_left_alone(sql: Connection, database: Database, owner: Owner) -> None:
    job_id = (await enqueue(sql, "COLLECT")).job_id
    await check(database)

    assert await status_of(sql, job_id) == "PENDING"
    assert await sql.fetchval("select count(*) from wakeful.ready") == 1


async def test_an_instance_that_serves_every_type_serves_this_one(
    sql: Connection, database: Database
) -> None:
    await register(database, serves={}, every_type=True)
    await enqueue(sql, "AI_CHECK")
    await check(database)

    assert await sql.fetchval("select count(*) from wakeful.ready") == 1


@pytest.mark.parametrize("state", ["draining", "dead"])
async def test_an_instance_that_claims_nothing_more_serves_nothing(
    sql: Connection, database: Database, owner: Owner, state: str
) -> None:
    await sql.execute("update wakeful.instance set state = $1", state)
    await register(database, serves={"OTHER": "hash"})
    await enqueue(sql, "COLLECT")
    await check(database)

    assert await sql.fetchval("select count(*) from wakeful.scheduled") == 1


async def test_the_grace_counts_from_when_nobody_served_it_any_more(
    sql: Connection, database: Database, owner: Owner
) -> None:
    await enqueue(sql, "AI_CHECK")
    await sql.execute("update wakeful.instance set started_at = now() - interval '1 day'")
    await check(database, grace=60.0)
    assert await sql.fetchval("select count(*) from wakeful.ready") == 1

    await sql.execute("update wakeful.lane set unserved_since = now() - interval '59 seconds'")
    await check(database, grace=60.0)
    assert await sql.fetchval("select count(*) from wakeful.ready") == 1

    await sql.execute("update wakeful.lane set unserved_since = now() - interval '61 seconds'")
    await check(database, grace=60.0)
    assert await sql.fetchval("select count(*) from wakeful.ready") == 0


async def test_the_grace_begins_anew_when_somebody_served_it_meanwhile(
    sql: Connection, database: Database, owner: Owner
) -> None:
    await enqueue(sql, "AI_CHECK")
    await check(database, grace=3600.0)
    other = await register(database, serves={"AI_CHECK": "hash"})
    await check(database, grace=3600.0)

    assert await sql.fetchval("select unserved_since is null from wakeful.lane")
    await instances.retire(database, other.pair)
    await check(database, grace=3600.0)
    assert await sql.fetchval("select unserved_since > now() - interval '1 minute' from wakeful.lane")


async def test_after_an_outage_of_all_instances_each_has_the_grace_to_come_back(
    sql: Connection, database: Database
) -> None:
    last = await register(database)
    await enqueue(sql, "COLLECT")
    await enqueue(sql, "AI_CHECK")
    await instances.drain(database, last.pair)
    await check(database, grace=60.0)  # it drains: nobody serves anything
    await instances.retire(database, last.pair)
    await sql.execute("update wakeful.lane set unserved_since = now() - interval '1 hour'")
    await register(database, serves={"COLLECT": "hash"})  # the one that serves AI_CHECK is a second later

    await check(database, grace=60.0)

    assert await sql.fetchval("select count(*) from wakeful.ready") == 2


async def test_a_great_many_go_in_batches_and_leave_their_neighbours_alone(
    sql: Connection, database: Database, owner: Owner, said: Heard
) -> None:
    many = "select count(*) from wakeful.enqueue_many((select jsonb_agg($1::jsonb) from generate_series(1, $2::int)))"
    await sql.execute(many, '{"job_type": "AI_CHECK"}', 2 * BATCH + 1)
    await sql.execute(many, '{"job_type": "COLLECT"}', 3)
    await check(database)

    assert await sql.fetchval("select array_agg(distinct job_type) from wakeful.ready") == ["COLLECT"]
    assert await sql.fetchval("select count(*) from wakeful.scheduled") == 2 * BATCH + 1
    assert said.recorder.of(UNKNOWN_TYPE_FAILED, jobs=2 * BATCH + 1)


async def test_a_job_that_somebody_has_locked_delays_no_other(
    db: ClonedDatabase, sql: Connection, database: Database, owner: Owner
) -> None:
    for _ in range(5):
        await enqueue(sql, "AI_CHECK")
    psql = await db.connect()
    async with psql.transaction():
        await psql.execute("select from wakeful.ready order by pos limit 1 for update")
        await check(database)
        assert await sql.fetchval("select count(*) from wakeful.scheduled") == 4


async def test_a_job_that_the_database_refuses_stops_no_other_and_is_told_once_a_minute(
    sql: Connection, database: Database, owner: Owner, said: Heard
) -> None:
    ids = [(await enqueue(sql, "AI_CHECK")).job_id for _ in range(10)]
    await sql.execute(
        f"alter table wakeful.scheduled add constraint refused check (job_id <> '{ids[3]}') not valid"
    )
    duty = unserved_duty(database, grace=0.0)
    for _ in range(2):
        await duty.perform(anyio.Event())

    assert [row["job_id"] for row in await sql.fetch("select job_id from wakeful.ready")] == [ids[3]]
    assert await sql.fetchval("select attempts from wakeful.ready") == 0
    assert await sql.fetchval("select count(*) from wakeful.scheduled where attempts = 1") == 9
    (told,) = said.recorder.of(JOB_STRANDED, action="fail_unserved", row=str(ids[3]))
    assert "refused" in str(told["error"])
    assert said.recorder.of(UNKNOWN_TYPE_FAILED, jobs=9)


async def test_a_running_job_is_not_touched(sql: Connection, database: Database, owner: Owner) -> None:
    job_id = await job_in(sql, "RUNNING")
    await sql.execute("update wakeful.instance set serves = '{}'")
    await enqueue(sql, "COLLECT")
    await check(database)

    assert await status_of(sql, job_id) == "RUNNING"
    assert await sql.fetchval("select count(*) from wakeful.scheduled") == 1


async def test_nothing_happens_in_a_paused_queue(sql: Connection, database: Database, owner: Owner) -> None:
    await enqueue(sql, "AI_CHECK")
    await sql.fetchval("select wakeful.pause('default')")
    await check(database)
    assert await sql.fetchval("select count(*) from wakeful.ready") == 1
    assert await sql.fetchval("select count(*) from wakeful.lane where unserved_since is not null") == 0

    await sql.fetchval("select wakeful.resume('default')")
    await check(database)
    assert await sql.fetchval("select count(*) from wakeful.ready") == 0


@pytest.mark.case("I9")
async def test_a_type_that_came_back_between_the_look_and_the_batch_is_left_alone(
    sql: Connection, database: Database, owner: Owner
) -> None:
    await enqueue(sql, "AI_CHECK")
    await lanes.mark_unserved(database)
    (lane,) = await lanes.find_unserved(database, 0.0)
    await register(database, serves={"AI_CHECK": "hash"})

    positions = list((await lanes.find_unserved_jobs(database, lane.lane_id, 0, 10)).values())
    assert len(positions) == 1
    assert await lanes.fail_unserved(database, lane.lane_id, positions) == {}


async def test_left_alone_they_wait_and_it_is_noted_since_when(
    sql: Connection, database: Database, owner: Owner
) -> None:
    await enqueue(sql, "AI_CHECK")
    await enqueue(sql, "AI_CHECK", queue="other")
    for _ in range(3):
        await check(database, unknown_types="leave")

    assert await sql.fetchval("select count(*) from wakeful.ready") == 2
    assert await sql.fetchval("select count(*) from wakeful.lane where unserved_since is not null") == 2


async def test_the_duty_runs_by_itself(
    sql: Connection, database: Database, owner: Owner, said: Heard
) -> None:
    await enqueue(sql, "AI_CHECK")
    duty = unserved_duty(database, grace=0.0, interval=0.05)
    async with running(lambda stop: run_duties(database, stop, [duty], interval=0.05)):
        await said.recorder.seen(UNKNOWN_TYPE_FAILED, job_type="AI_CHECK")
