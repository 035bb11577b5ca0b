"""A cancel of a running job is the daemon's own doing: it comes with the next beat, and nothing refuses it."""

from __future__ import annotations

from pathlib import Path

from support.commands import wakeful
from support.databases import ClonedDatabase, Connection
from support.factories import enqueue
from support.ledger import Ledger
from support.process import running_daemon

BEAT_SECONDS = 0.2


async def test_a_cancel_is_delivered_by_the_beat_and_is_not_taken_for_a_handlers(
    db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    settings = {"lease.beat": f"{BEAT_SECONDS}s"}
    with running_daemon(db.dsn, settings=settings, ledger=ledger) as daemon:
        for _ in range(3):
            job_id = (await enqueue(sql, "probe.sleep", '{"seconds": 60}')).job_id
            daemon.wait_for("job.started", job_id=str(job_id))
            await sql.execute("select wakeful.cancel($1)", job_id)
            daemon.wait_for("job.cancelled", job_id=str(job_id))

        assert daemon.events("job.cancel_requested")
        assert daemon.events("exit.refused") == []
    assert len(Ledger(ledger).lines("CANCELLED")) == 3


async def test_the_reason_comes_to_its_owner_to_its_end_and_to_who_looks_at_it(
    db: ClonedDatabase, sql: Connection
) -> None:
    settings = {"lease.beat": f"{BEAT_SECONDS}s"}
    with running_daemon(db.dsn, settings=settings) as daemon:
        job_id = (await enqueue(sql, "probe.sleep", '{"seconds": 60}')).job_id
        daemon.wait_for("job.started", job_id=str(job_id))
        asked = await wakeful("jobs", "cancel", job_id, "--reason", "too late", db=db)
        requested = daemon.wait_for("job.cancel_requested", job_id=str(job_id))
        cancelled = daemon.wait_for("job.cancelled", job_id=str(job_id))
    shown = await wakeful("jobs", "show", job_id, db=db)

    assert (asked.code, requested["reason"]) == (0, "too late")
    assert "too late" in str(cancelled["error"])
    assert ("CANCELLED" in shown.out, "too late" in shown.out) == (True, True)
