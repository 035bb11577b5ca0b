"""A server whose disk is full: it dies, or refuses to write; daemons wait, say little, and go on when there is room."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import anyio
import asyncpg
import pytest

from support.canaries import (
    LEASE_SECONDS,
    QUICK,
    Connect,
    all_done,
    charged,
    connecting,
    enqueue,
    enqueue_many,
    get,
)
from support.cluster import TEMPLATE, make_template
from support.databases import Connection
from support.eventually import eventually, looked
from support.process import running_daemon
from support.scratch import scratch_folder
from support.small_disk import NEEDED, SmallDisk, can_mount, running_on_small_disk

HANDLERS = "support.probes,support.hours"


@pytest.fixture
def disk() -> Iterator[SmallDisk]:
    if not can_mount():
        pytest.skip(NEEDED)
    with scratch_folder() as folder, running_on_small_disk(folder / "data") as disk:
        yield disk


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    async with connecting() as connect:
        yield connect


@pytest.mark.case("F86")
async def test_a_server_that_dies_of_a_full_log_is_waited_for_and_charges_no_job(
    disk: SmallDisk, connect: Connect
) -> None:
    await make_template(disk.cluster)
    dsn = disk.cluster.dsn(TEMPLATE)
    sql = await connect(dsn)
    with running_daemon(dsn, settings={**QUICK, "lease.long": "60s"}, handlers=HANDLERS) as daemon:
        daemon.wait_for("daemon.started")
        jobs = [await enqueue(sql, "probe.hour", seconds=LEASE_SECONDS) for _ in range(4)]
        daemon.wait_for("job.started", count=4)
        disk.fill(disk.log)
        await write_until_refused(sql)
        daemon.wait_for("database.lost", timeout=40)
        assert (await get(daemon, "/livez"))[0] == 200
        assert (await get(daemon, "/readyz"))[0] == 503
        await eventually(looked(lambda: disk.cluster.postmaster.pid is None), timeout=40)
        disk.free(disk.log)
        disk.cluster.postmaster.stop()
        disk.start()
        after = await connect(dsn)
        jobs.append(await enqueue(after, "probe.ok"))
        await all_done(after, len(jobs))
        assert await charged(after) == []
        told = [line for line in daemon.lines if line["level"] in {"warning", "error", "critical"}]
        assert len(told) <= 24, told


@pytest.mark.case("F86", "F80")
async def test_while_tables_can_not_grow_jobs_wait_and_nothing_is_charged_or_said_too_often(
    disk: SmallDisk, connect: Connect
) -> None:
    """The server answers, reads go through, and writes fail: an outage, too, that does not come and go in the log."""
    await make_template(disk.cluster)
    dsn = disk.cluster.dsn(TEMPLATE)
    admin = await connect(disk.cluster.dsn())
    await admin.execute(f"create tablespace small location '{disk.tables}'")
    await admin.execute(f"alter database {TEMPLATE} set tablespace small")
    sql = await connect(dsn)
    with running_daemon(dsn, settings={**QUICK, "lease.long": "60s"}, handlers=HANDLERS) as daemon:
        daemon.wait_for("daemon.started")
        await enqueue_many(sql, "probe.ok", 2000, options="queue => 'held'")
        await sql.execute("select wakeful.pause('held')")
        disk.fill(disk.tables)
        with pytest.raises(asyncpg.DiskFullError):
            await enqueue_many(sql, "probe.ok", 200_000)
        await sql.execute("select wakeful.resume('held')")
        lost = daemon.wait_for("database.lost")
        assert "53100" in str(lost["error"])
        await anyio.sleep(3)
        assert len(daemon.events("database.lost")) <= 2
        assert len(daemon.events("database.restored")) <= 1
        assert (await get(daemon, "/readyz"))[0] == 503
        disk.free(disk.tables)
        await sql.execute("select wakeful.resume('held')")
        await all_done(sql, 2000)
        assert await sql.fetchval("select max(attempts) from wakeful.jobs") == 1


async def write_until_refused(sql: Connection) -> None:
    """Fill what is left of the log."""
    await sql.execute("create table filling (what text)")
    with suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
        for _ in range(200):
            await sql.execute("insert into filling select repeat('x', 1000) from generate_series(1, 1000)")
        raise AssertionError("the log is not full")
