"""Failovers to a real standby, and copies: daemons go on by themselves, and run again what a standby never had."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import anyio
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
    statuses,
)
from support.cluster import TEMPLATE, Cluster, execute, make_template
from support.commands import wakeful
from support.databases import Connection
from support.eventually import eventually
from support.ledger import Ledger
from support.process import running_daemon
from support.proxy import Proxy, running_proxy
from support.standby import Standby, running_standby, streaming

JOBS = 30


@pytest.fixture
def way(own_cluster: Cluster) -> Iterator[Proxy]:
    """The address that daemons and producers know."""
    with running_proxy(own_cluster.socket) as proxy:
        yield proxy


@asynccontextmanager
async def failing_over(cluster: Cluster, *, synchronous: bool) -> AsyncIterator[Standby]:
    await make_template(cluster)
    folder = cluster.server.data.parent / "standby"
    with running_standby(cluster, folder, synchronous=synchronous) as standby:
        await streaming(standby, synchronous=synchronous)
        yield standby


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    async with connecting() as connect:
        yield connect


async def move(way: Proxy, standby: Standby) -> None:
    """Fail over, and then the address."""
    await standby.fail_over()
    way.switch(standby.socket)
    way.reset()


@pytest.mark.case("F09", "F80", "F86", "I1", "I4")
async def test_through_a_failover_to_a_synchronous_standby_nothing_is_lost_or_charged(
    own_cluster: Cluster, way: Proxy, connect: Connect, tmp_path: Path
) -> None:
    ledger = Ledger(tmp_path / "ledger")
    async with failing_over(own_cluster, synchronous=True) as standby:
        sql = await connect(own_cluster.dsn(TEMPLATE))
        await enqueue_many(sql, "probe.sleep", 4, seconds=LEASE_SECONDS)
        await enqueue_many(sql, "probe.sleep", JOBS, seconds=0.05)
        with running_daemon(way.dsn(TEMPLATE), settings=QUICK, ledger=ledger.path, tag="one") as daemon:
            daemon.wait_for("job.finished", count=JOBS // 2)
            await move(way, standby)
            daemon.wait_for("server.changed", what="timeline")
            after = await connect(way.dsn(TEMPLATE))
            await enqueue_many(after, "probe.ok", JOBS)
            await all_done(after, 4 + 2 * JOBS)
        # Only a claim that no synchronous commit followed may be unknown there: of short jobs.
        long = [str(line["job_id"]) for line in ledger.lines("START") if line["job_type"] == "probe.sleep"]
        assert await charged(after, long) == []
        assert ledger.unexplained(lease=LEASE_SECONDS) == []


@pytest.mark.case("I4", "I6", "F20")
async def test_what_an_asynchronous_standby_has_not_heard_is_run_again_and_nothing_stays_running(
    own_cluster: Cluster, way: Proxy, connect: Connect, tmp_path: Path
) -> None:
    ledger = Ledger(tmp_path / "ledger")
    async with failing_over(own_cluster, synchronous=False) as standby:
        sql = await connect(own_cluster.dsn(TEMPLATE))
        may_end = tmp_path / "may end"
        await enqueue_many(sql, "probe.until", 6, file=str(may_end))
        with running_daemon(way.dsn(TEMPLATE), settings=QUICK, ledger=ledger.path, tag="one") as daemon:
            daemon.wait_for("job.started", count=6)
            await caught_up(await connect(standby.server.dsn_for(TEMPLATE)), running=6)
            standby.cut()
            gone = await enqueue(sql, "probe.ok")
            may_end.touch()
            daemon.wait_for("job.finished", count=7)  # of all these ends the standby hears nothing
            ledger.note("CRASHED")
            await move(way, standby)
            daemon.wait_for("server.changed", what="timeline")
            after = await connect(way.dsn(TEMPLATE))
            later = await enqueue(after, "probe.ok")
            daemon.wait_for("job.finished", job_id=later)
            await all_done(after, 7)
        assert not await after.fetchval(
            "select exists (select from wakeful.jobs where job_id = $1::uuid)", gone
        )
        assert ledger.unexplained(lease=LEASE_SECONDS) == []
        assert await after.fetchval("select max(attempts) from wakeful.jobs") == 1


async def caught_up(there: Connection, *, running: int) -> None:
    """Wait until the standby knows of so many running jobs."""
    await eventually(lambda: statuses(there), until=lambda seen: seen.get("RUNNING") == running)


@pytest.mark.case("I4")
async def test_a_copy_restored_from_a_dump_runs_nothing_of_the_originals_until_it_is_adopted(
    own_cluster: Cluster, cluster: Cluster, connect: Connect, tmp_path: Path
) -> None:
    await make_template(own_cluster)
    original, ledger = own_cluster.dsn(TEMPLATE), Ledger(tmp_path / "ledger")
    await execute(original, "update wakeful.installation set system_identifier = wakeful.system_identifier()")
    sql = await connect(original)
    with running_daemon(original, settings=QUICK, ledger=ledger.path, tag="original") as at_home:
        await enqueue(sql, "probe.sleep", seconds=600)
        at_home.wait_for("job.started", count=1)
        await sql.execute("select wakeful.pause('held')")
        await enqueue_many(sql, "probe.ok", 5, options="queue => 'held'")
        async with restored(own_cluster, cluster) as copy:
            with running_daemon(copy, settings=QUICK, ledger=ledger.path, tag="copy") as away:
                away.wait_for("server.refused")
                there = await connect(copy)
                await there.execute(
                    "select wakeful.resume('held'), wakeful.alert('told', title => 'to nobody')"
                )
                await enqueue(there, "probe.ok")
                status, body = await get(away, "/readyz")
                assert (status, "wakeful adopt" in json.loads(body)["reasons"]["identity"]) == (503, True)
                # Longer than the lease of what runs at the original: its owner does not beat here.
                beats = "select count(*) from wakeful.instance where beat_at < now() - $1::interval"
                await eventually(
                    lambda: there.fetchval(beats, timedelta(seconds=1.5 * LEASE_SECONDS)), timeout=30
                )
                assert ledger.lines(tag="copy") == []
                assert (await statuses(there)) == {"RUNNING": 1, "PENDING": 6}
                assert not await there.fetchval("select exists (select from wakeful.alert)")

                adopted = await wakeful("adopt", environ={"DATABASE_URL": copy})
                assert adopted.code == 0
                away.wait_for("job.finished", count=6)
        assert [line["what"] for line in ledger.lines(tag="original")] == ["START"]


@asynccontextmanager
async def restored(source: Cluster, target: Cluster) -> AsyncIterator[str]:
    """Restore a dump of the source's database on another server, until the block ends; gives its DSN."""
    name = f"test_{secrets.token_hex(6)}"
    await execute(target.dsn(), f"create database {name} template template0")
    try:
        dump, load = source.binaries.program("pg_dump"), source.binaries.program("pg_restore")
        dumped = await anyio.run_process([dump, "-Fc", "-d", source.dsn(TEMPLATE)])
        await anyio.run_process([load, "-d", target.dsn(name)], input=dumped.stdout)
        yield target.dsn(name)
    finally:
        await execute(target.dsn(), f"drop database {name} with (force)")
