"""Daemons that are killed or paused, servers that restart under them: nothing lost, nothing charged or doubled."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from support.cluster import Cluster, make_template
from support.databases import ClonedDatabase, Connection, cloned_database
from support.eventually import eventually
from support.process import entries, running_daemon
from wakeful.embedded import StopMode

QUICK = {
    "lease.default": "3s",
    "lease.long": "3s",
    "lease.beat": "500ms",
    "reaper.interval": "500ms",
    "poll.min": "200ms",
    "poll.max": "500ms",
    "drain.grace": "2s",
}


async def enqueue(sql: Connection, job_type: str, *, max_attempts: int = 5, **payload: object) -> str:
    found = await sql.fetchval(
        "select job_id::text from wakeful.enqueue($1, $2, max_attempts => $3)",
        job_type,
        json.dumps(payload),
        max_attempts,
    )
    return str(found)


async def counts(sql: Connection) -> dict[str, int]:
    return {
        row["status"]: row["n"]
        for row in await sql.fetch("select status, count(*) as n from wakeful.jobs group by status")
    }


async def test_a_paused_daemon_finds_its_jobs_taken_and_drops_its_results(
    db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    job_id = await enqueue(sql, "probe.sleep", seconds=2)
    with running_daemon(db.dsn, settings=QUICK, ledger=ledger, tag="paused") as paused:
        paused.wait_for("job.started", job_id=job_id)
        paused.send(signal.SIGSTOP)  # before the other starts, however long that takes
        with running_daemon(db.dsn, settings=QUICK, ledger=ledger, tag="other") as other:
            other.wait_for("job.finished", job_id=job_id, timeout=40)
            paused.send(signal.SIGCONT)

            paused.wait_for("instance.deposed")
            paused.wait_for("instance.registered", count=2)
            paused.wait_for("job.lost", job_id=job_id)
        later = await enqueue(sql, "probe.ok")
        paused.wait_for("job.finished", job_id=later)
        assert len(paused.events("job.lost", job_id=job_id)) == 1
    row = await sql.fetchrow(
        "select status, run_no, lost, attempts from wakeful.jobs where job_id = $1::uuid", job_id
    )
    assert row is not None
    assert tuple(row) == ("DONE", 2, 1, 1)


@pytest.mark.case("F80")
async def test_jobs_go_on_through_a_restart_of_the_server(own_cluster: Cluster, tmp_path: Path) -> None:
    await make_template(own_cluster)
    ledger = tmp_path / "ledger"
    async with cloned_database(own_cluster) as db:
        sql = await db.connect()
        may_end = tmp_path / "may end"
        running = [await enqueue(sql, "probe.until", file=str(may_end)) for _ in range(4)]
        settings = {**QUICK, "lease.default": "8s", "lease.long": "8s"}
        with running_daemon(db.dsn, settings=settings, ledger=ledger) as daemon:
            daemon.wait_for("job.started", count=4)
            own_cluster.postmaster.stop(StopMode.IMMEDIATE)
            daemon.wait_for("database.lost")
            own_cluster.postmaster.start()
            may_end.touch()
            for job_id in running:
                daemon.wait_for("job.finished", job_id=job_id, timeout=30)
            again = await db.connect()
            later = await enqueue(again, "probe.ok")
            daemon.wait_for("job.finished", job_id=later)
            daemon.send(signal.SIGTERM)
            assert daemon.exit_code() == 0
        for job_id in running:
            row = await again.fetchrow(
                "select status, run_no, attempts, lost from wakeful.jobs where job_id = $1::uuid", job_id
            )
            assert row is not None
            assert tuple(row) == ("DONE", 1, 1, 0)
    assert sum(entry["what"] == "START" for entry in entries(ledger)) == 5


@pytest.mark.case("F39", "I16")
async def test_many_deploys_in_a_row_kill_no_job(db: ClonedDatabase, sql: Connection) -> None:
    job_id = await enqueue(sql, "probe.sleep", max_attempts=3, seconds=600)
    for _ in range(5):
        with running_daemon(db.dsn, settings={**QUICK, "drain.grace": "100ms"}) as daemon:
            daemon.wait_for("job.started", job_id=job_id)
            daemon.send(signal.SIGTERM)
            assert daemon.exit_code() == 0
    row = await sql.fetchrow(
        "select status, attempts, handed_back, run_no from wakeful.jobs where job_id = $1::uuid", job_id
    )
    assert row is not None
    assert tuple(row) == ("PENDING", 0, 5, 5)
    assert await sql.fetchval("select count(*) from wakeful.alert_outbox where kind = 'never_finishes'") == 1


@pytest.mark.case("F01")
async def test_a_listener_that_is_killed_listens_again_at_once(db: ClonedDatabase, sql: Connection) -> None:
    slow = {"poll.min": "60s", "poll.max": "60s"}
    with running_daemon(db.dsn, settings=slow) as daemon:
        daemon.wait_for("listener.connected")
        killed = await sql.fetchval(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity"
            " where datname = current_database() and application_name = 'wakeful listener'"
        )
        assert killed == 1
        daemon.wait_for("listener.connected", count=2, timeout=10)
        job_id = await enqueue(sql, "probe.ok")
        daemon.wait_for("job.finished", job_id=job_id)


@pytest.mark.case("F82")
async def test_terminated_connections_cost_no_attempt(db: ClonedDatabase, sql: Connection) -> None:
    jobs = [await enqueue(sql, "probe.sleep", seconds=0.2) for _ in range(200)]
    with running_daemon(db.dsn, settings=QUICK) as daemon:
        for round_no in range(8):
            daemon.wait_for("job.finished", count=20 * round_no + 1)
            await sql.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and application_name like 'wakeful%'"
            )

        async def finished() -> int:
            return (await counts(sql)).get("DONE", 0)

        await eventually(finished, until=lambda done: done == len(jobs), timeout=60)
        daemon.send(signal.SIGTERM)
        assert daemon.exit_code() == 0
    assert await sql.fetchval("select max(attempts) from wakeful.jobs") == 1
