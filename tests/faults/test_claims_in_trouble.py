"""Claims in trouble: other isolation levels, counters at their end, floods, held snapshots, bulk actions."""

from __future__ import annotations

import random
import signal
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio
import asyncpg
import pytest

from support.canaries import LEASE_SECONDS, LONG, QUICK, all_done, charged, enqueue, enqueue_many, statuses
from support.databases import ClonedDatabase, Connection
from support.eventually import eventually, looked
from support.forms import some
from support.ledger import Ledger
from support.process import running_daemon

COUNTERS = ("attempts", "run_no", "handed_back", "snoozed", "lost")
STORM_SECONDS = 600.0 if LONG else 5.0


@pytest.mark.case("F05")
async def test_a_bulk_enqueue_costs_a_fleet_claims_by_its_batches_and_not_by_its_jobs(
    db: ClonedDatabase, sql: Connection
) -> None:
    if not db.cluster.has_statistics:
        pytest.skip("needs pg_stat_statements: a PostgreSQL with its contrib modules")
    jobs = 2000
    with (
        running_daemon(db.dsn, settings=QUICK) as one,
        running_daemon(db.dsn, settings=QUICK) as two,
        running_daemon(db.dsn, settings=QUICK) as three,
    ):
        for daemon in (one, two, three):
            daemon.wait_for("listener.connected")
            daemon.wait_for("daemon.started")
        await sql.execute("select pg_stat_statements_reset()")
        await enqueue_many(sql, "probe.ok", jobs)
        await all_done(sql, jobs)
        calls = await sql.fetchval(
            "select sum(calls) from pg_stat_statements s join pg_database d on d.oid = s.dbid"
            " where d.datname = current_database() and query like '%wakeful.claim(%'"
        )
        notified = sum(len(daemon.events("notification.received")) for daemon in (one, two, three))
        assert notified < jobs / 50
        assert calls < jobs / 2


@pytest.mark.case("F11")
async def test_counters_at_their_end_stop_neither_their_own_job_nor_any_other(
    db: ClonedDatabase, sql: Connection
) -> None:
    for column in COUNTERS:
        await enqueue(sql, "probe.ok", options=f"subject => '{column}'")
        # int4's largest; a job that lost its owner so often waits in its lane's suspect twin, where depart puts it
        await sql.execute(f"update wakeful.ready set {column} = 2147483647 where subject = $1", column)
    await enqueue_many(sql, "probe.ok", 20)
    failing = await enqueue(sql, "probe.raise", options="subject => 'fails'")
    await sql.execute("update wakeful.ready set attempts = 2147483647 where job_id = $1::uuid", failing)
    with running_daemon(db.dsn, settings=QUICK) as daemon:
        daemon.wait_for("job.died", job_id=failing)
        await eventually(
            partial(statuses, sql),
            until=lambda seen: seen == {"DONE": 20 + len(COUNTERS), "DEAD": 1},
            timeout=20,
        )
        assert not daemon.events("claim.failed")


@pytest.mark.case("F13")
async def test_no_more_jobs_run_than_there_are_places_and_free_ones_are_used(
    db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    ledger, settings = Ledger(tmp_path / "ledger"), {**QUICK, "worker.concurrency": 2}
    with (
        running_daemon(db.dsn, settings=settings, ledger=ledger.path, tag="one") as one,
        running_daemon(db.dsn, settings=settings, ledger=ledger.path, tag="two") as two,
    ):
        for daemon in (one, two):
            daemon.wait_for("daemon.started")
        await enqueue_many(sql, "probe.sleep", 2, seconds=600)
        await eventually(lambda: statuses(sql), until=lambda seen: seen == {"RUNNING": 2}, timeout=30)
        await enqueue_many(sql, "probe.ok", 20)
        # Jobs of a moment are claimed a few at a time, ahead of a free place; what runs is another matter.
        await eventually(
            lambda: statuses(sql), until=lambda seen: seen == {"RUNNING": 2, "DONE": 20}, timeout=30
        )
        running, worst = 0, 0
        for line in ledger.lines("START", "END"):
            running += 1 if line["what"] == "START" else -1
            worst = max(worst, running)
        assert worst <= 4


@pytest.mark.case("F14")
async def test_what_may_not_run_and_what_floods_holds_up_nothing_else(
    db: ClonedDatabase, sql: Connection
) -> None:
    await sql.execute("select wakeful.pause('held')")
    await enqueue_many(sql, "probe.ok", 5000, options="queue => 'held'")
    await enqueue_many(sql, "probe.sleep", 6000, options="priority => 'interactive'", seconds=0.02)
    with running_daemon(db.dsn, settings={**QUICK, "worker.concurrency": 4}) as daemon:
        daemon.wait_for("job.finished", count=20)
        low = [await enqueue(sql, "probe.ok", options="priority => 'batch'") for _ in range(3)]
        for job_id in low:
            daemon.wait_for("job.finished", job_id=job_id)
        assert await sql.fetchval("select count(*) from wakeful.ready where queue <> 'held'") > 0


@pytest.mark.case("F16")
async def test_beside_a_snapshot_that_is_held_jobs_flow_and_no_transaction_of_a_daemon_is_long(
    db: ClonedDatabase, sql: Connection
) -> None:
    holder, watching = await db.connect(), await db.connect(application="watching")
    longest = (
        "select coalesce(max(extract(epoch from clock_timestamp() - xact_start)), 0) from pg_stat_activity"
        " where datname = current_database() and application_name like 'wakeful%'"
    )
    with running_daemon(db.dsn, settings=QUICK) as daemon:
        daemon.wait_for("daemon.started")
        async with holder.transaction(isolation="repeatable_read"):
            await holder.execute("select pg_current_xact_id()")
            done, worst = 0, 0.0
            for _ in range(5):
                done += 400
                await enqueue_many(sql, "probe.ok", 400)
                while (await statuses(sql)).get("DONE", 0) < done:
                    worst = max(worst, float(await watching.fetchval(longest)))
            assert worst < 5.0


@pytest.mark.case("F19")
@pytest.mark.parametrize("level", some(["serializable", "repeatable read"], "serializable"))
async def test_two_daemons_whose_role_has_another_isolation_level_work_as_ever(
    db: ClonedDatabase, sql: Connection, tmp_path: Path, level: str
) -> None:
    await sql.execute(f"alter database {db.name} set default_transaction_isolation = '{level}'")
    producer, ledger = await db.connect(), Ledger(tmp_path / "ledger")
    with (
        running_daemon(db.dsn, settings=QUICK, ledger=ledger.path, tag="one") as one,
        running_daemon(db.dsn, settings=QUICK, ledger=ledger.path, tag="two") as two,
    ):
        for daemon in (one, two):
            daemon.wait_for("daemon.started")
        for number in range(40):
            await enqueue(producer, "probe.ok", options=f"dedupe_key => 'key {number}'")
            await enqueue(producer, "probe.steps", steps=2)
            await enqueue(producer, "probe.ok", options="run_after => now() + interval '300 ms'")
        dead = await enqueue(producer, "probe.raise", options="max_attempts => 1")
        again = await enqueue(producer, "probe.say", what="snooze", seconds=1)
        cancelled = await enqueue(producer, "probe.sleep", seconds=60)
        await eventually(looked(lambda: ledger.lines("START", job_id=cancelled)), timeout=30)
        await sql.fetchval("select wakeful.cancel($1::uuid)", cancelled)
        await eventually(
            lambda: statuses(sql),
            until=lambda seen: (seen.get("DONE"), seen.get("DEAD"), seen.get("CANCELLED")) == (120, 1, 1),
            timeout=40,
        )
        assert {row[0] for row in await charged(sql)} <= {dead, again, cancelled}
        others = [line for line in ledger.lines("START") if line["job_id"] != again]
        assert len(others) == 120 + 2
        for daemon in (one, two):
            assert not daemon.events("database.lost")
            assert not daemon.events("flush.failed")


@pytest.mark.timeout(900 if LONG else 120)
@pytest.mark.case("F18", "F85")
async def test_bulk_actions_prunes_and_restarts_beside_the_load_make_no_deadlock_a_jobs_failure(
    db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    ledger, over = Ledger(tmp_path / "ledger"), anyio.Event()
    settings = {**QUICK, "history.finished": "1h"}
    statements = (
        "select wakeful.requeue(job_id) from wakeful.dead",
        "select wakeful.cancel(job_id) from (select job_id from wakeful.ready order by random() limit 5) r",
        "select wakeful.cancel(job_id) from (select job_id from wakeful.scheduled order by job_id desc limit 5) s",
        "select wakeful.expire_finished(interval '0 seconds')",
        "delete from wakeful.job_log where ctid in (select ctid from wakeful.job_log limit 100)",
    )

    async def meddle(statement: str) -> None:
        connection = await db.connect(application="meddling")
        while not over.is_set():
            with suppress(asyncpg.PostgresError):  # what an operator's statement loses is the operator's
                await connection.execute(statement)
            await anyio.sleep(0.05)

    async def restart() -> None:
        chance = random.Random(18)
        for number in range(1_000_000):
            with running_daemon(
                db.dsn, settings=settings, ledger=ledger.path, tag=f"mortal {number}"
            ) as daemon:
                with anyio.move_on_after(chance.uniform(1.0, 2.5)):
                    await over.wait()
                daemon.send(signal.SIGKILL)
                daemon.exit_code()
                ledger.note("KILLED", tag=f"mortal {number}")
            if over.is_set():
                return

    with running_daemon(db.dsn, settings=settings, ledger=ledger.path, tag="lasting") as daemon:
        daemon.wait_for("daemon.started")
        async with anyio.create_task_group() as group:
            for statement in statements:
                group.start_soon(meddle, statement)
            group.start_soon(restart)
            with anyio.move_on_after(STORM_SECONDS):
                while True:
                    await enqueue_many(sql, "probe.sleep", 20, seconds=0.02)
                    await enqueue_many(sql, "probe.raise", 2, options="max_attempts => 2")
                    await anyio.sleep(0.2)
            over.set()
        terminal = {"DONE", "DEAD", "CANCELLED", "PENDING"}
        await eventually(
            lambda: statuses(sql),
            until=lambda seen: set(seen) <= terminal and not seen.get("RUNNING"),
            timeout=60,
        )
    assert ledger.unexplained(lease=LEASE_SECONDS) == []
    failed = await sql.fetchval(
        "select count(*) from wakeful.jobs where job_type = 'probe.sleep' and last_error is not null"
        " and last_error not like '%lease-expired%' and status <> 'CANCELLED'"
    )
    assert failed == 0
