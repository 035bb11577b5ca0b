"""A daemon whose handlers run in processes of their own: its start, its stop, its log, and its sudden end."""

from __future__ import annotations

import json
import signal
import uuid

from support import isolated_jobs
from support.databases import ClonedDatabase, Connection
from support.eventually import eventually
from support.isolation import Ledger, gone, ledger
from support.process import running_daemon

__all__ = ["ledger"]

QUICK = {"drain.grace": "200ms", "poll.min": "100ms", "poll.max": "200ms", "worker.processes": 2}
HANDLERS = isolated_jobs.__name__


async def enqueue(sql: Connection, job_type: str, **payload: object) -> uuid.UUID:
    return uuid.UUID(
        str(await sql.fetchval("select job_id from wakeful.enqueue($1, $2)", job_type, json.dumps(payload)))
    )


async def test_kill_9_of_the_daemon_leaves_no_process_behind_whatever_it_does(
    db: ClonedDatabase, sql: Connection, ledger: Ledger
) -> None:
    with running_daemon(db.dsn, settings=QUICK, ledger=ledger.path, handlers=HANDLERS) as daemon:
        await enqueue(sql, "HOLD")
        await enqueue(sql, "LOOK")
        holding, sleeper = await ledger.pids("holding")
        (looking,) = await ledger.pids("looking")
        daemon.send(signal.SIGKILL)
        await gone(holding, sleeper, looking)


async def test_a_stop_hands_back_what_will_not_end_and_exits_clean(
    db: ClonedDatabase, sql: Connection, ledger: Ledger
) -> None:
    with running_daemon(db.dsn, settings=QUICK, ledger=ledger.path, handlers=HANDLERS) as daemon:
        job_id = await enqueue(sql, "DEAF")
        (pid,) = await ledger.pids("deaf")
        daemon.send(signal.SIGTERM)
        assert daemon.exit_code() == 0
        await gone(pid)

    row = await sql.fetchrow(
        "select status, attempts, handed_back from wakeful.jobs where job_id = $1", job_id
    )
    assert row is not None
    assert tuple(row) == ("PENDING", 0, 1)


async def test_lines_of_the_process_are_lines_of_the_job(db: ClonedDatabase, sql: Connection) -> None:
    with running_daemon(db.dsn, settings=QUICK, handlers=HANDLERS) as daemon:
        job_id = await enqueue(sql, "ASK")
        foreign = daemon.wait_for("from afar", job_id=str(job_id))
        assert (foreign["logger"], foreign["level"], foreign["stars"], foreign["run_no"]) == (
            "foreign",
            "info",
            7,
            1,
        )
        daemon.wait_for("complained", job_id=str(job_id))
        own = daemon.wait_for("looked up", job_id=str(job_id))
        assert (own["logger"], own["at"]) == ("wakeful.job", "sky")
        kept = "select count(*) from wakeful.job_log where job_id = $1 and message like 'from afar%'"
        assert await eventually(lambda: sql.fetchval(kept, job_id)) == 1


def test_a_handler_that_a_process_does_not_find_ends_the_start_with_78(db: ClonedDatabase) -> None:
    with running_daemon(db.dsn, handlers="support.hidden_jobs") as daemon:
        assert daemon.exit_code() == 78
        daemon.wait_until_said(
            "  handlers: HIDDEN has isolation, but a process that imports the modules anew finds no such handler: "
            "register it at the top of its module, under no condition"
        )
