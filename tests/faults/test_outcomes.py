"""Deadline, cancel, shutdown and failure: four ends that are told apart, and what a deadline counts from."""

from __future__ import annotations

import signal
import urllib.request
from pathlib import Path

import pytest

from support.databases import ClonedDatabase, Connection
from support.fleets import STALL, enqueue, reached, row_of, running_fleet
from support.ledger import at_of


def metrics(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


@pytest.mark.case("F34", "F37")
async def test_deadline_cancel_shutdown_and_failure_are_four_things(
    db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    once = "max_attempts => 1"
    with running_fleet(db.dsn, tmp_path) as fleet:
        daemon = fleet.start("only", drain_grace="100ms")
        # A producer's transaction that stays open for longer than the job may take makes it not late at birth.
        open_long = await db.connect()
        transaction = open_long.transaction()
        await transaction.start()
        held = await enqueue(open_long, "probe.sleep", options="deadline => '3s'", seconds=0.5)
        late = await enqueue(sql, "probe.sleep", options=f"{once}, deadline => '1s'", seconds=600)
        failed = await enqueue(sql, "probe.raise", options=once, text="its own fault")
        stopped = await enqueue(sql, "probe.sleep", options=once, seconds=600)
        cancelled = await enqueue(sql, "probe.sleep", options=once, seconds=600)
        await fleet.noted("START", count=4)
        await sql.execute("select wakeful.cancel($1::uuid)", cancelled)
        row = await reached(sql, late, "DEAD")
        assert str(row["last_error"]).startswith("JobDeadlineExceeded")
        assert "its own fault" in str((await reached(sql, failed, "DEAD"))["last_error"])
        await reached(sql, cancelled, "CANCELLED")
        await eventually_older(open_long, 3.5)
        await transaction.commit()
        for event, job_id in (
            *(("job.died", late), ("job.died", failed)),
            *(("job.cancelled", cancelled), ("job.finished", held)),
        ):
            daemon.wait_for(event, job_id=job_id)

        shown = metrics(daemon.port())
        assert fleet.stop("only") == 0
        for outcome, count in (("dead", 2), ("cancelled", 1), ("succeeded", 1)):
            found = [
                line
                for line in shown.splitlines()
                if f'outcome="{outcome}"' in line and "_finished_total" in line
            ]
            assert sum(int(float(line.split()[-1])) for line in found) == count, (outcome, shown)
        row = await row_of(sql, stopped)
        assert (row["status"], row["attempts"], row["handed_back"], row["last_error"]) == (
            "PENDING",
            0,
            1,
            None,
        )
        told = await sql.fetch("select job_id::text from wakeful.alert_outbox where kind = 'job_dead'")
        assert {one["job_id"] for one in told} == {late, failed}


async def eventually_older(connection: Connection, seconds: float) -> None:
    """Wait until the connection's transaction is so old, by the server's clock."""
    await connection.execute(
        "select pg_sleep(greatest(0, $1 - extract(epoch from clock_timestamp() - now())))", seconds
    )


@pytest.mark.case("F35")
async def test_more_deaf_handlers_than_workers_hold_up_no_other_job_and_no_stop(
    db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    with running_fleet(db.dsn, tmp_path) as fleet:
        daemon = fleet.start("only", worker_concurrency=4)
        deaf = [
            await enqueue(sql, "probe.deaf", options="deadline => '1s', max_attempts => 1", seconds=600)
            for _ in range(5)
        ]
        others = [await enqueue(sql, "probe.ok") for _ in range(20)]
        for job_id in others:
            await reached(sql, job_id, "DONE")
        daemon.wait_for("job.stuck", count=5)
        for job_id in deaf:
            row = await reached(sql, job_id, "DEAD")
            assert str(row["last_error"]).startswith("JobDeadlineExceeded")
        assert "wakeful_stuck_jobs 5" in metrics(daemon.port()) or daemon.events("job.overlapped")
        fleet.ledger.note("TERM", tag="only")
        daemon.send(signal.SIGTERM)
        assert daemon.exit_code() == 1
        fleet.ledger.note("GONE", tag="only")
        took = at_of(fleet.ledger.lines("GONE")[0]) - at_of(fleet.ledger.lines("TERM")[0])
        assert took <= 2.0 + 1.0 + 5.0 + STALL
        assert await sql.fetchval("select count(*) from wakeful.alert_outbox where kind = 'job_dead'") == 5
