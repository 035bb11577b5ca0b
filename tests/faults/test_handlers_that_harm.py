"""Handlers that cancel, close, take or end what is not theirs: what a daemon survives, and what its fleet does (R8)."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.databases import ClonedDatabase, Connection
from support.eventually import eventually
from support.forms import some
from support.ledger import Ledger
from support.process import Daemon, running_daemon
from support.saboteurs import DEADLY, SURVIVED

HANDLERS = "support.probes,support.saboteurs"
QUICK = {
    "lease.default": "3s",
    "lease.long": "3s",
    "lease.beat": "500ms",
    "reaper.interval": "500ms",
    "poll.min": "100ms",
    "poll.max": "200ms",
    "drain.grace": "2s",
    "drain.interrupt": "1s",
}


async def enqueue(sql: Connection, job_type: str, **payload: object) -> str:
    found = await sql.fetchval(
        "select job_id::text from wakeful.enqueue($1, $2)", job_type, json.dumps(payload)
    )
    return str(found)


async def ended(sql: Connection, job_id: str) -> str:
    """Wait until a job has ended, or is put off after an attempt, and give its status."""
    query = "select status, attempts + lost > 0 as tried from wakeful.jobs where job_id = $1::uuid"

    async def look() -> tuple[str, bool]:
        row = await sql.fetchrow(query, job_id)
        assert row is not None
        return row["status"], row["tried"]

    return (await eventually(look, until=lambda seen: seen[0] != "RUNNING" and seen[1], timeout=30))[0]


async def begun(ledger: Ledger, daemon: Daemon, deed: str) -> None:
    async def look() -> bool:
        return bool(ledger.lines("START", deed=deed)) or daemon.process.poll() is not None

    await eventually(look, timeout=30)
    assert ledger.lines("START", deed=deed), f"the daemon had gone before {deed}"


@pytest.mark.case("F34", "F35", "F42", "F43")
async def test_whatever_a_handler_does_to_the_process_the_daemon_goes_on(
    db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    ledger = Ledger(tmp_path / "ledger")
    with running_daemon(db.dsn, settings=QUICK, ledger=ledger.path, handlers=HANDLERS) as daemon:
        beside = await enqueue(sql, "probe.sleep", seconds=600)
        daemon.wait_for("job.started", job_id=beside, timeout=60)
        for deed in SURVIVED:
            harm = await enqueue(sql, "harm.deed", deed=deed)
            await begun(ledger, daemon, deed)
            assert await ended(sql, await enqueue(sql, "probe.ok")) == "DONE", f"after {deed}"
            await ended(sql, harm)
        await ended(sql, await enqueue(sql, "harm.thread_deed"))
        # What has to do with time, cancelling and stopping still works, too.
        await sql.execute("select wakeful.cancel($1::uuid)", beside)
        assert await ended(sql, beside) == "CANCELLED"
        daemon.send(signal.SIGTERM)
        assert daemon.exit_code() == 1, "one of them waits for the daemon itself, so it never ends"
    row = await sql.fetchrow(
        "select max(run_no) as runs, max(lost) as lost from wakeful.jobs where job_type not like 'harm.%'"
    )
    assert row is not None
    assert tuple(row) == (1, 0), "a neighbour was charged"
    assert await sql.fetchval("select count(*) from wakeful.instance") == 0, "it left as in any stop"


@pytest.mark.case("F20", "I11", "I14")
async def test_a_handler_that_ends_the_process_costs_it_and_charges_no_neighbour(
    db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    ledger = Ledger(tmp_path / "ledger")
    deeds: Sequence[str] = some(list(DEADLY), "closes_all_descriptors", "never_turns_again")
    beside = []
    for deed in deeds:
        with running_daemon(
            db.dsn, settings=QUICK, ledger=ledger.path, handlers=HANDLERS, tag=deed
        ) as daemon:
            beside.append(await enqueue(sql, "probe.once_long", seconds=600))
            daemon.wait_for("job.started", job_id=beside[-1], timeout=60)
            await enqueue(sql, "harm.deed", deed=deed)
            daemon.exit_code()
            ledger.note("KILLED", tag=deed)
            assert ledger.lines("START", deed=deed)
    # One that does not know how to do harm: it takes all back, and runs what it can.
    with running_daemon(db.dsn, settings=QUICK, ledger=ledger.path, tag="last") as rescuer:
        for job_id in beside:
            rescuer.wait_for("job.finished", job_id=job_id, timeout=40)
        rescuer.send(signal.SIGTERM)
        assert rescuer.exit_code() == 0
    rows = await sql.fetch("select job_type, status, attempts, lost from wakeful.jobs where lost > 0")
    assert {tuple(row) for row in rows if row["job_type"] == "probe.once_long"} == {
        ("probe.once_long", "DONE", 1, 1)
    }
    assert ledger.unexplained(lease=3.0) == []
