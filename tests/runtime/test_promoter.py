"""The promoter: exact by the server's clock, in any number of instances, waiting for no row (F07, I7, I18)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import anyio
import pytest

from support.databases import ClonedDatabase, Connection
from support.dispatching import Heard, heard, store_of
from support.eventually import eventually
from support.factories import claim, depart, enqueue
from support.loops import running
from support.plans import Mode, nodes, plan_of, reads_of
from support.proxy import Proxy
from support.refusals import refuse_job
from support.running import brisk
from support.running import running as instance
from wakeful import JobContext, Registry, Retry
from wakeful.aio.alarm import Alarm
from wakeful.core.settings import PollSettings
from wakeful.runtime.halving import Stranded
from wakeful.runtime.promoter import BATCH, Turn, promote_due, run_promoter
from wakeful.store.database import Database
from wakeful.store.statements import statements
from wakeful.telemetry.events import JOB_FINISHED, JOB_STRANDED, JOBS_PROMOTED

IN = "select clock_timestamp() + make_interval(secs => $1)"


@pytest.fixture
def said() -> Heard:
    return heard()


@pytest.fixture
async def database(db: ClonedDatabase, said: Heard) -> AsyncIterator[Database]:
    async with store_of(db, said) as opened:
        yield opened


async def later(sql: Connection, seconds: float, **options: str) -> None:
    """Enqueue a job that is due in so many seconds."""
    await enqueue(sql, run_after=await sql.fetchval(IN, seconds), **options)  # type: ignore[arg-type]


async def make_due(sql: Connection) -> None:
    await sql.execute("update wakeful.scheduled set run_after = now() - interval '1 second'")


async def scheduled_many(sql: Connection, count: int, job_type: str = "COLLECT") -> None:
    element = json.dumps({"job_type": job_type, "run_after": "2030-01-01T00:00:00Z"})
    await sql.execute(
        "select count(*) from wakeful.enqueue_many((select jsonb_agg($1::jsonb) from generate_series(1, $2::int)))",
        element,
        count,
    )


@pytest.mark.case("F07")
async def test_the_wait_is_armed_for_the_earliest_and_re_armed_by_a_nearer_one(
    sql: Connection, database: Database, said: Heard
) -> None:
    bell = Alarm()
    promoted: list[int] = []

    async def loop(stop: anyio.Event) -> None:
        await run_promoter(database, stop, alarm=bell, poll=3600.0, on_promoted=promoted.append)

    await later(sql, 3600.0)
    async with running(loop):
        await eventually(lambda: _looked(sql))
        # It sleeps for an hour now; the notification of a nearer one rings its bell.
        await later(sql, 0.2, queue="near")
        bell.ring()
        await said.recorder.seen(JOBS_PROMOTED, jobs=1)

    row = await sql.fetchrow("select queue, run_after <= clock_timestamp() as due from wakeful.ready")
    assert row is not None
    assert (row["queue"], row["due"]) == ("near", True)
    assert promoted == [1]


async def _looked(sql: Connection) -> bool:
    """Whether the promoter has had its first look and waits."""
    seen: bool = await sql.fetchval(
        """select exists (select from pg_stat_activity
                          where application_name = 'wakeful' and datname = current_database() and state = 'idle'
                            and query like '%wakeful.scheduled%')"""
    )
    return seen


async def test_without_any_notification_a_due_job_waits_for_one_poll_at_most(
    sql: Connection, database: Database, said: Heard
) -> None:
    async def loop(stop: anyio.Event) -> None:
        await run_promoter(database, stop, poll=0.05)

    async with running(loop):
        await eventually(lambda: _looked(sql))
        await later(sql, 0.1)
        await said.recorder.seen(JOBS_PROMOTED, jobs=1)


@pytest.mark.case("F07")
async def test_a_retry_of_our_own_arms_the_timer(db: ClonedDatabase, sql: Connection) -> None:
    """The promoter sleeps for an hour by then, and nobody is notified of a retry."""
    registry = Registry()

    @registry.job("COLLECT")
    async def collect(job: JobContext) -> None:
        if job.run_no == 1:
            await eventually(lambda: _looked(sql))
            raise Retry(after=0.2)

    await enqueue(sql)
    never = replace(brisk(), poll=PollSettings(min=3600.0, max=3600.0))
    async with instance(db, registry, settings=never) as one:
        await one.recorder.seen(JOB_FINISHED)


async def test_nothing_is_promoted_before_its_time(sql: Connection, database: Database) -> None:
    await later(sql, 30.0)

    turn = await promote_due(database, poll=60.0)
    assert turn.jobs == 0
    assert 29.0 < turn.wait <= 30.0
    assert await promote_due(database, poll=5.0) == Turn(jobs=0, wait=5.0)
    assert await sql.fetchval("select count(*) from wakeful.ready") == 0


async def test_a_job_keeps_everything_it_came_with(sql: Connection, database: Database) -> None:
    await enqueue(
        sql,
        "SEND",
        {"n": 12345678901234567890},
        queue="letters",
        priority="batch",
        subject="s",
        dedupe_key="k",
        run_after=await sql.fetchval(IN, 60.0),
        max_attempts=7,
        deadline=timedelta(minutes=3),
        tags=["a", "b"],
        meta={"m": 1},
        limit_key="key",
    )
    before = await sql.fetchval("select to_jsonb(s) - 'run_after' from wakeful.scheduled s")
    await make_due(sql)
    await promote_due(database)

    after = await sql.fetchrow(
        """select to_jsonb(r)
                  - '{pos,owner,claim,started_at,deadline_at,cancel_requested_at,cancel_reason,run_after}'::text[]
                  as row,
                  r.run_after < now() as due_since_its_own_time
           from wakeful.ready r"""
    )
    assert after is not None
    assert json.loads(after["row"]) == json.loads(before)
    assert after["due_since_its_own_time"]


async def test_a_retry_keeps_the_token_that_moved_it(sql: Connection, database: Database) -> None:
    job_id = (await enqueue(sql)).job_id
    await claim(sql, job_id, token=99)
    await depart(sql, job_id, "fail", delay=timedelta(minutes=1))
    await make_due(sql)
    await promote_due(database)

    row = await sql.fetchrow("select moved_by, attempts, owner, last_error from wakeful.ready")
    assert row is not None
    assert tuple(row) == (99, 1, None, "it went wrong")


async def test_more_than_a_batch_goes_on_at_once_and_in_the_order_of_time(
    sql: Connection, database: Database
) -> None:
    await scheduled_many(sql, BATCH + 30)
    await scheduled_many(sql, 20, job_type="OTHER")
    await sql.execute(
        """update wakeful.scheduled s set run_after = now() - make_interval(secs => n)
           from (select job_id, row_number() over () as n from wakeful.scheduled) as o where o.job_id = s.job_id"""
    )

    assert await promote_due(database) == Turn(jobs=BATCH, wait=0.0)
    assert await promote_due(database, poll=5.0) == Turn(jobs=50, wait=5.0)
    in_order = """select bool_and(run_after >= before)
                  from (select run_after, lag(run_after) over (partition by lane_id order by pos) as before
                        from wakeful.ready) as r where before is not null"""
    assert await sql.fetchval(in_order)


async def test_two_promoters_move_each_job_once(
    db: ClonedDatabase, sql: Connection, database: Database
) -> None:
    await scheduled_many(sql, 4 * BATCH)
    await make_due(sql)
    moved: list[int] = []

    async def one(store: Database) -> None:
        turn = Turn(jobs=0, wait=0.0)
        while turn.wait < 5.0:
            turn = await promote_due(store, skip=turn.skip)
            moved.append(turn.jobs)

    async with store_of(db, heard()) as other, anyio.create_task_group() as group:
        group.start_soon(one, database)
        group.start_soon(one, other)

    assert sum(moved) == 4 * BATCH
    assert await sql.fetchval("select count(distinct job_id) from wakeful.ready") == 4 * BATCH


async def test_a_row_that_somebody_has_locked_delays_no_other(
    db: ClonedDatabase, sql: Connection, database: Database
) -> None:
    await scheduled_many(sql, 10)
    await make_due(sql)
    psql = await db.connect()
    async with psql.transaction():
        await psql.execute("select from wakeful.scheduled limit 1 for update")
        assert (await promote_due(database)).jobs == 9

    assert (await promote_due(database)).jobs == 1


async def test_a_row_that_the_database_refuses_stops_no_other_and_is_told_once_a_minute(
    sql: Connection, database: Database, said: Heard
) -> None:
    await scheduled_many(sql, 10)
    await make_due(sql)
    bad = await sql.fetchval("select job_id from wakeful.scheduled order by job_id offset 4 limit 1")
    await refuse_job(sql, bad)
    stranded = Stranded(said.telemetry)

    assert (await promote_due(database, stranded=stranded)).jobs == 9
    assert (await promote_due(database, stranded=stranded)).jobs == 0
    (told,) = said.recorder.of(JOB_STRANDED, action="promote", row=str(bad))
    assert "refused" in str(told["error"])

    await sql.execute("alter table wakeful.ready drop constraint refused")
    stranded.again[bad] = 0.0  # the minute is over
    assert (await promote_due(database, stranded=stranded)).jobs == 1


async def test_a_great_many_locked_rows_delay_no_other(
    db: ClonedDatabase, sql: Connection, said: Heard, database: Database
) -> None:
    """Somebody cancels a thousand jobs in psql and goes to lunch before the commit."""
    await scheduled_many(sql, 2 * BATCH)
    await make_due(sql)
    psql = await db.connect()

    async def loop(stop: anyio.Event) -> None:
        await run_promoter(database, stop, poll=0.1)

    async with psql.transaction():
        await psql.execute("select from wakeful.scheduled for update")
        await later(sql, 60.0, queue="free")
        await sql.execute("update wakeful.scheduled set run_after = now() where queue = 'free'")
        async with running(loop):
            await said.recorder.seen(JOBS_PROMOTED)

    assert await sql.fetchval("select queue from wakeful.ready") == "free"


@pytest.mark.case("I7")
async def test_the_transaction_has_its_id_before_it_takes_a_position(
    db: ClonedDatabase, sql: Connection
) -> None:
    """What the settled low water stands on (I7): a position is never older than its transaction's id."""
    await scheduled_many(sql, 1)
    await make_due(sql)
    job = await sql.fetchrow("select lane_id, job_id from wakeful.scheduled")
    assert job is not None
    plan = "\n".join(
        row[0]
        for row in await sql.fetch(
            f"explain (costs off) {statements()['promote_jobs']}", job["lane_id"], [job["job_id"]]
        )
    )
    # The insert, which takes the position, reads what the delete gave.
    assert plan.index("CTE gone") < plan.index("CTE promoted")
    assert "CTE Scan on gone" in plan


async def test_promoted_jobs_ring_and_hot_lanes_do_not(
    db: ClonedDatabase, sql: Connection, database: Database
) -> None:
    listener = await db.connect()
    rung: list[str] = []
    await listener.add_listener("wakeful", lambda *heard: rung.append(str(heard[3])))
    await later(sql, 120.0, queue="cold")
    await later(sql, 120.0, queue="hot")
    await sql.execute(
        """insert into wakeful.lane (lane_id, queue, priority, job_type, suspect, hot_until)
           select lane_id, queue, priority, job_type, false, now() + interval '1 hour'
           from wakeful.scheduled where queue = 'hot'"""
    )
    await make_due(sql)
    await promote_due(database)
    await sql.execute("select pg_notify('wakeful', 'the end')")

    async def ended() -> bool:
        return "the end" in rung

    await eventually(ended)
    cold = await sql.fetchval("select lane_id from wakeful.ready where queue = 'cold'")
    assert rung == [str(cold), "the end"]


async def test_an_outage_only_delays(db: ClonedDatabase, sql: Connection, said: Heard, proxy: Proxy) -> None:
    async with store_of(db, said, proxy=proxy) as through:

        async def loop(stop: anyio.Event) -> None:
            await run_promoter(through, stop, poll=0.05)

        async with running(loop):
            await eventually(lambda: _looked(sql))
            proxy.reset()
            await later(sql, 0.05)
            await said.recorder.seen(JOBS_PROMOTED, jobs=1)


@pytest.mark.parametrize("analysed", ["before", "after"])
async def test_the_look_uses_the_index_whatever_the_statistics_say(sql: Connection, analysed: str) -> None:
    if analysed == "before":
        await sql.execute("analyze wakeful.scheduled")  # empty: out of date in a moment
    await scheduled_many(sql, 3000)
    if analysed == "after":
        await sql.execute("analyze wakeful.scheduled")
    first = "(select job_id from wakeful.scheduled order by job_id limit 1)"
    await sql.execute(f"update wakeful.scheduled set run_after = now() where job_id = {first}")
    plan = "\n".join(
        row[0]
        for row in await sql.fetch(
            f"explain (analyze, costs off, timing off) {statements()['look_at_due']}", BATCH, 0
        )
    )

    assert plan.count("scheduled_run_after") >= 2
    assert "Seq Scan" not in plan
    assert "Rows Removed by Filter" not in plan


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("analysed", ["never", "before", "after"])
async def test_a_promotion_reads_its_own_rows_only(sql: Connection, mode: Mode, analysed: str) -> None:
    if analysed == "before":
        await sql.execute("analyze wakeful.scheduled")  # empty: out of date in a moment
    await scheduled_many(sql, 3000)
    await make_due(sql)
    if analysed == "after":
        await sql.execute("analyze wakeful.scheduled")
    rows = await sql.fetch("select lane_id, job_id from wakeful.scheduled order by job_id limit 10")
    job_ids = ", ".join(f"'{row['job_id']}'" for row in rows)

    plan = await plan_of(sql, mode, "promote_jobs", str(rows[0]["lane_id"]), f"array[{job_ids}]::uuid[]")

    assert {node.get("Index Name") for node in nodes(plan)} & {"scheduled_pkey", "scheduled_run_after"} == {
        "scheduled_pkey"
    }
    assert not any("Seq Scan" in read for read in reads_of(plan, "scheduled"))
    read = [node for node in nodes(plan) if node.get("Relation Name") == "scheduled"]
    assert max(node["Actual Rows"] + node.get("Rows Removed by Filter", 0) for node in read) <= 10
