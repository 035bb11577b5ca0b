"""Queues of a running daemon, and what its handlers declare and share."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from support.databases import ClonedDatabase, Connection
from support.eventually import eventually
from support.process import entries, running_daemon

QUICK = {"poll.min": "200ms", "poll.max": "500ms"}


async def enqueue(
    sql: Connection, job_type: str, queue: str, *, priority: str = "normal", **payload: object
) -> str:
    found = await sql.fetchval(
        "select job_id::text from wakeful.enqueue($1, $2, queue => $3, priority => $4)",
        job_type,
        json.dumps(payload),
        queue,
        priority,
    )
    return str(found)


async def test_a_queue_that_exists_only_in_the_database_is_served(
    db: ClonedDatabase, sql: Connection
) -> None:
    with running_daemon(db.dsn) as daemon:
        daemon.wait_for("daemon.started")
        job_id = await enqueue(sql, "probe.ok", 'a "new" queue; --')
        daemon.wait_for("job.finished", job_id=job_id)


async def test_a_pause_outlives_a_restart_and_a_resume_is_seen_at_once(
    db: ClonedDatabase, sql: Connection
) -> None:
    slow = {"poll.min": "60s", "poll.max": "60s"}
    await sql.execute("select wakeful.pause('crawl', 'the site asked us to')")
    paused = await enqueue(sql, "probe.ok", "crawl")
    for _ in range(2):
        with running_daemon(db.dsn, settings=slow) as daemon:
            daemon.wait_for("listener.connected")
            other = await enqueue(sql, "probe.ok", "other")
            daemon.wait_for("job.finished", job_id=other)
            assert not daemon.events("job.started", job_id=paused)
    with running_daemon(db.dsn, settings=slow) as daemon:
        daemon.wait_for("listener.connected")
        await sql.execute("select wakeful.resume('crawl')")
        daemon.wait_for("job.finished", job_id=paused)


async def test_each_queue_keeps_to_its_own_concurrency(
    db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    narrow = [await enqueue(sql, "probe.sleep", "narrow", seconds=0.3) for _ in range(6)]
    wide = [await enqueue(sql, "probe.sleep", "wide", seconds=0.3) for _ in range(12)]
    settings = {**QUICK, "worker.concurrency": "8", "queues.narrow.concurrency": "2"}
    with running_daemon(db.dsn, settings=settings, ledger=ledger) as daemon:
        for job_id in narrow + wide:
            daemon.wait_for("job.finished", job_id=job_id, timeout=30)
    assert _most_at_once(ledger, set(narrow)) == 2
    assert _most_at_once(ledger, set(narrow + wide)) <= 8


async def test_interactive_jobs_overtake_a_batch_and_the_batch_is_not_starved(
    db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    batch = [await enqueue(sql, "probe.sleep", "q", priority="batch", seconds=0.02) for _ in range(60)]
    quick = [await enqueue(sql, "probe.sleep", "q", priority="interactive", seconds=0.02) for _ in range(60)]
    with running_daemon(db.dsn, settings={**QUICK, "worker.concurrency": "1"}, ledger=ledger) as daemon:

        async def done() -> int:
            return int(await sql.fetchval("select count(*) from wakeful.jobs where status = 'DONE'"))

        await eventually(done, until=lambda count: count == 120, timeout=60)
        daemon.send(signal.SIGTERM)
        assert daemon.exit_code() == 0
    order = [str(entry["job_id"]) for entry in entries(ledger) if entry["what"] == "START"]
    assert sum(job_id in quick for job_id in order[:40]) >= 30
    assert any(job_id in batch for job_id in order[:110])


async def test_what_handlers_declare_holds_for_an_enqueue_in_plain_sql(
    db: ClonedDatabase, sql: Connection
) -> None:
    with running_daemon(db.dsn, handlers="support.sharing") as daemon:
        daemon.wait_for("daemon.started")
        opened = next(
            number for number, line in enumerate(daemon.lines) if line["event"] == "resources.opened"
        )
        started = next(
            number for number, line in enumerate(daemon.lines) if line["event"] == "daemon.started"
        )
        assert opened < started
        jobs = [
            await sql.fetchval(
                """select job_id::text from wakeful.enqueue('shared.count', '{"place": {"id": "p1"}}')"""
            )
            for _ in range(3)
        ]
        for job_id in jobs:
            daemon.wait_for("job.finished", job_id=job_id)
        daemon.send(signal.SIGTERM)
        assert daemon.exit_code() == 0
        names = [str(line["event"]) for line in daemon.lines]
        assert names.index("resources.closed") > len(names) - names[::-1].index("job.finished") - 1
    rows = await sql.fetch("select queue, priority, max_attempts, subject, result from wakeful.jobs")
    assert {tuple(row)[:4] for row in rows} == {("declared", "interactive", 7, "p1")}
    assert sorted(json.loads(row["result"])["attempts"] for row in rows) == [1, 2, 3]


def _most_at_once(ledger: Path, jobs: set[str]) -> int:
    running: set[str] = set()
    most = 0
    for entry in sorted(entries(ledger), key=lambda one: float(str(one["at"]))):
        if entry["job_id"] in jobs:
            (running.add if entry["what"] == "START" else running.discard)(str(entry["job_id"]))
            most = max(most, len(running))
    return most


async def test_a_lifespan_that_never_closes_does_not_hold_the_process(
    db: ClonedDatabase, sql: Connection
) -> None:
    with running_daemon(db.dsn, handlers="support.clinging") as daemon:
        daemon.wait_for("daemon.started")
        daemon.send(signal.SIGTERM)
        assert daemon.exit_code(timeout=30) == 1
        assert daemon.events("resources.failed", stage="close")
    assert await sql.fetchval("select count(*) from wakeful.instance") == 0
