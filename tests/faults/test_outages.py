"""A database that is away, refuses or hangs: one state of the process, few lines, nothing charged, back by itself."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import anyio
import pytest

from support.canaries import (
    LEASE_SECONDS,
    LONG,
    QUICK,
    Connect,
    all_done,
    charged,
    connecting,
    enqueue,
    enqueue_many,
    get,
    statuses,
    terminate,
)
from support.cluster import TEMPLATE, Cluster, make_template
from support.databases import ClonedDatabase, Connection
from support.eventually import eventually, looked
from support.ledger import Ledger
from support.process import Daemon, running_daemon
from support.proxy import Mode, Proxy
from wakeful.embedded import StopMode

AWAY_SECONDS = 60.0 if LONG else 3.0
OUTAGE_SECONDS = 120.0 if LONG else 4.0
# 120 s are several times the shorter lease, of 30 s, and within 80 % of the longer, of 180 s; so is this.
ENDURING = {
    **QUICK,
    "lease.long": "180s" if LONG else f"{(OUTAGE_SECONDS + 14) / 0.8:g}s",
    "lease.default": "30s" if LONG else "1500ms",
}
HANDLERS = "support.probes,support.hours"
BACK_SECONDS = 5.0  # after which a server that has returned is worked on again
MARGIN_SECONDS = 5.0
ATTEMPTS_A_SECOND = 2.0
PATIENT = pytest.mark.timeout(600 if LONG else 120)


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    async with connecting() as connect:
        yield connect


async def begun(ledger: Ledger, jobs: int) -> None:
    """Wait until so many jobs have begun, by the ledger: the first may have ended when the last begins."""
    await eventually(looked(lambda: ledger.lines("START")), until=lambda seen: len(seen) >= jobs, timeout=30)


def loud(daemon: Daemon) -> list[dict[str, object]]:
    """What it has said at a level that people read."""
    return [line for line in daemon.lines if line["level"] in {"warning", "error", "critical"}]


@PATIENT
@pytest.mark.case("F80")
async def test_a_daemon_whose_database_comes_late_waits_says_so_and_begins(own_cluster: Cluster) -> None:
    await make_template(own_cluster)
    own_cluster.postmaster.stop()
    with running_daemon(own_cluster.dsn(TEMPLATE)) as daemon:
        daemon.wait_for("database.lost")
        before = cpu_seconds(daemon.pid)
        await anyio.sleep(AWAY_SECONDS)
        status, body = await get(daemon, "/readyz")
        assert (status, "not reachable" in json.loads(body)["reasons"]["database"]) == (503, True)
        assert (await get(daemon, "/healthz"))[0] == 200
        assert len(loud(daemon)) <= 3 + AWAY_SECONDS / 60
        assert cpu_seconds(daemon.pid) - before < 0.5 + 0.1 * AWAY_SECONDS

        own_cluster.postmaster.start()
        daemon.wait_for("daemon.started", timeout=30)
        await eventually(partial(get, daemon, "/readyz"), until=lambda answer: answer[0] == 200, timeout=20)


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


@PATIENT
@pytest.mark.case("F80", "F09", "I1")
@pytest.mark.parametrize("mode", StopMode if LONG else [StopMode.IMMEDIATE])
async def test_an_outage_interrupts_no_hour_long_job_and_charges_none_at_all(
    own_cluster: Cluster, connect: Connect, tmp_path: Path, mode: StopMode
) -> None:
    """Two daemons, either of which would take the other for dead, if a lease that is past were enough."""
    await make_template(own_cluster)
    dsn, ledger = own_cluster.dsn(TEMPLATE), Ledger(tmp_path / "ledger")
    sql = await connect(dsn)
    hours, minutes = 8, 6
    with (
        running_daemon(dsn, settings=ENDURING, handlers=HANDLERS, ledger=ledger.path, tag="one") as one,
        running_daemon(dsn, settings=ENDURING, handlers=HANDLERS, ledger=ledger.path, tag="two") as two,
    ):
        for daemon in (one, two):
            daemon.wait_for("daemon.started")
        await enqueue_many(sql, "probe.hour", hours, seconds=OUTAGE_SECONDS + 2)
        await enqueue_many(sql, "probe.sleep", minutes, seconds=OUTAGE_SECONDS + 2)
        await begun(ledger, hours + minutes)
        own_cluster.postmaster.stop(mode)
        await anyio.sleep(OUTAGE_SECONDS)
        own_cluster.postmaster.start()
        after = await connect(dsn)
        back = await after.fetchval("select clock_timestamp()")
        canary = await enqueue(after, "probe.ok")
        await all_done(after, hours + minutes + 1, timeout=2 * OUTAGE_SECONDS + 45)
        began = await after.fetchval("select started_at from wakeful.jobs where job_id = $1::uuid", canary)
        assert (began - back).total_seconds() < BACK_SECONDS + MARGIN_SECONDS
        assert not ledger.lines("CANCELLED", job_type="probe.hour")
        long = {str(line["job_id"]) for line in ledger.lines("START", job_type="probe.hour")}
        assert await charged(after, long) == []
        assert await after.fetchval("select max(lost) from wakeful.jobs") == 0
        assert await after.fetchval("select max(attempts) from wakeful.jobs") == 1
        assert ledger.unexplained(lease=LEASE_SECONDS) == []
        for daemon in (one, two):
            assert len(daemon.events("database.lost")) <= 2 + OUTAGE_SECONDS / 60
            quiet = [line for line in loud(daemon) if line["event"] != "lease.fenced"]  # one a job
            assert len(quiet) <= 8 + OUTAGE_SECONDS / 4, quiet
            daemon.send(signal.SIGTERM)
            assert daemon.exit_code() == 0


@PATIENT
@pytest.mark.case("F82")
@pytest.mark.parametrize("how", ["cut in the handshake", "taken and never answered"])
async def test_while_no_connection_can_be_made_few_are_tried(
    db: ClonedDatabase, sql: Connection, proxy: Proxy, how: str
) -> None:
    seconds = 120.0 if LONG else 4.0
    with running_daemon(proxy.dsn(db.name), settings={"database.connect_timeout": "2s"}) as daemon:
        daemon.wait_for("listener.connected")
        daemon.wait_for("daemon.started")
        if how == "cut in the handshake":
            proxy.switch(("127.0.0.1", 1))
        else:
            proxy.set(Mode.BLACKHOLE)
        proxy.reset()
        before, began = proxy.count, time.monotonic()
        await anyio.sleep(seconds)
        tried, seconds = proxy.count - before, time.monotonic() - began
        assert tried <= 4 + ATTEMPTS_A_SECOND * seconds
        assert len(loud(daemon)) <= 6 + seconds / 4
        proxy.switch(db.cluster.socket)
        proxy.set(Mode.PASS)
        job_id = await enqueue(sql, "probe.ok")
        daemon.wait_for("job.finished", job_id=job_id, timeout=30)


@pytest.mark.case("F82", "F80")
async def test_a_server_without_a_free_connection_is_waited_for_like_one_that_is_away(
    db: ClonedDatabase, sql: Connection
) -> None:
    role = f"crowded_{db.name}"
    await sql.execute(f"create role {role} login in role wakeful_worker")
    try:
        with running_daemon(db.dsn_as(role), settings=ENDURING, handlers=HANDLERS) as daemon:
            daemon.wait_for("daemon.started")
            jobs = [await enqueue(sql, "probe.hour", seconds=LEASE_SECONDS) for _ in range(4)]
            daemon.wait_for("job.started", count=4)
            await sql.execute(f"alter role {role} connection limit 0")
            await terminate(sql)
            lost = daemon.wait_for("database.lost")
            assert "53300" in str(lost["error"])
            assert (await get(daemon, "/readyz"))[0] == 503
            await anyio.sleep(1)
            await sql.execute(f"alter role {role} connection limit 2")  # fewer than it would like
            jobs += [await enqueue(sql, "probe.ok")]
            await anyio.sleep(2)
            await sql.execute(f"alter role {role} connection limit -1")
            await all_done(sql, len(jobs))
            assert await charged(sql) == []
            assert len(loud(daemon)) <= 16, loud(daemon)
    finally:
        await terminate(sql)
        await sql.execute(f"drop role {role}")


@pytest.mark.case("F82")
async def test_a_password_that_was_rotated_in_its_file_needs_no_restart(
    own_cluster: Cluster, connect: Connect, tmp_path: Path
) -> None:
    await make_template(own_cluster)
    sql = await connect(own_cluster.dsn(TEMPLATE))
    await sql.execute("create role rotated login in role wakeful_worker password 'first-secret'")
    hba = Path(await sql.fetchval("show hba_file"))
    hba.write_text("local all rotated scram-sha-256\n" + hba.read_text())
    await sql.execute("select pg_reload_conf()")
    file = tmp_path / "dsn"
    dsn = own_cluster.dsn(TEMPLATE, role="rotated:{}")
    assert "rotated%3A%7B%7D" in dsn
    dsn = dsn.replace("rotated%3A%7B%7D", "rotated:{}")
    file.write_text(dsn.format("first-secret"))
    with running_daemon("", settings={**QUICK, "database.dsn_file": file}) as daemon:
        daemon.wait_for("daemon.started")
        await sql.execute("alter role rotated password 'second-secret'")
        await terminate(sql)
        daemon.wait_for("database.lost")
        file.write_text(dsn.format("second-secret"))
        job_id = await enqueue(sql, "probe.ok")
        daemon.wait_for("job.finished", job_id=job_id, timeout=30)
        assert not re.search("first-secret|second-secret", "\n".join(daemon.raw))


@pytest.mark.case("F86")
async def test_a_role_that_may_not_write_for_a_while_is_an_outage_and_charges_nothing(
    db: ClonedDatabase, sql: Connection
) -> None:
    await sql.execute("set default_transaction_read_only = off")
    with running_daemon(db.dsn, settings=ENDURING, handlers=HANDLERS) as daemon:
        daemon.wait_for("daemon.started")
        jobs = [await enqueue(sql, "probe.hour", seconds=LEASE_SECONDS) for _ in range(4)]
        daemon.wait_for("job.started", count=4)
        await sql.execute(f"alter database {db.name} set default_transaction_read_only = on")
        await terminate(sql)
        lost = daemon.wait_for("database.lost")
        assert "read-only" in str(lost["error"])
        assert (await get(daemon, "/livez"))[0] == 200
        assert (await get(daemon, "/readyz"))[0] == 503
        jobs += [await enqueue(sql, "probe.ok") for _ in range(3)]
        await anyio.sleep(60 if LONG else LEASE_SECONDS)
        assert (await statuses(sql)) == {"RUNNING": 4, "PENDING": 3}
        await sql.execute(f"alter database {db.name} reset default_transaction_read_only")
        await all_done(sql, len(jobs))
        assert await charged(sql) == []
        assert len(loud(daemon)) <= (40 if LONG else 12), loud(daemon)


@PATIENT
@pytest.mark.case("F87")
async def test_a_long_lock_on_the_job_tables_starts_nothing_twice_and_charges_nothing(
    db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    ledger, watching = Ledger(tmp_path / "ledger"), await db.connect(application="watching")
    with (
        running_daemon(db.dsn, settings=ENDURING, handlers=HANDLERS, ledger=ledger.path, tag="one") as one,
        running_daemon(db.dsn, settings=ENDURING, handlers=HANDLERS, ledger=ledger.path, tag="two") as two,
    ):
        for daemon in (one, two):
            daemon.wait_for("daemon.started")
        await enqueue_many(sql, "probe.hour", 6, seconds=OUTAGE_SECONDS / 2)
        await enqueue_many(sql, "probe.sleep", 6, seconds=OUTAGE_SECONDS)
        await begun(ledger, 12)
        async with sql.transaction():
            await sql.execute("lock table wakeful.ready, wakeful.instance in access exclusive mode")
            with anyio.move_on_after(OUTAGE_SECONDS):  # several leases of the shorter ones
                while True:
                    assert await waiting_backends(watching) <= 16
                    await anyio.sleep(0.2)
        await enqueue_many(sql, "probe.ok", 10)
        await all_done(sql, 22)
        long = {str(line["job_id"]) for line in ledger.lines("START", job_type="probe.hour")}
        assert (len(long), await charged(sql, long)) == (6, [])
        assert await sql.fetchval("select max(attempts) from wakeful.jobs") == 1
        assert ledger.unexplained(lease=LEASE_SECONDS) == []


async def waiting_backends(sql: Connection) -> int:
    found: int = await sql.fetchval(
        "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    )
    return found


@pytest.mark.case("F87", "F80")
async def test_time_outs_that_the_role_brings_along_cut_no_statement_of_a_daemon_short(
    db: ClonedDatabase, sql: Connection
) -> None:
    """A role that gives every statement and lock a moment: what then fails is tried again, and no job pays for it."""
    await sql.execute(f"alter database {db.name} set statement_timeout = '1ms'")
    await sql.execute(f"alter database {db.name} set lock_timeout = '1ms'")
    await sql.execute(f"alter database {db.name} set idle_in_transaction_session_timeout = '1ms'")
    with running_daemon(db.dsn, settings=QUICK) as daemon:
        daemon.wait_for("daemon.started")
        await enqueue_many(sql, "probe.steps", 50, steps=3)
        await all_done(sql, 50)
        assert await charged(sql) == []
        assert loud(daemon) == []
