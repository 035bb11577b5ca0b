"""A stop while something stands in its way: locked tables, threads left behind, a forked copy. It ends all the same."""

from __future__ import annotations

import json
import signal
import sys
import time
from itertools import product
from pathlib import Path

import asyncpg
import pytest

from support.databases import ClonedDatabase, Connection
from support.eventually import eventually
from support.forms import some
from support.process import entries, running_daemon

QUICK = {
    "drain.grace": "1s",
    "drain.interrupt": "1s",
    "poll.min": "50ms",
    "poll.max": "100ms",
    "reaper.interval": "100ms",
}
# The grace, the interruption, and a few writes that are given up after a second or two: far from a statement time-out.
LONGEST_STOP_SECONDS = 20.0
# Runs the rest of its line with a pipe of one page as both streams, whose other end is held open and never read.
_UNREAD = """
import fcntl, os, sys
read, write = os.pipe()
fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
os.set_inheritable(read, True)
os.dup2(write, 1)
os.dup2(write, 2)
os.execv(sys.argv[1], sys.argv[1:])
"""
UNREAD = (sys.executable, "-c", _UNREAD)
# Runs the rest of its line, `python -m wakeful`, so that the import of the command line takes a second longer.
_SLOW_IMPORT = """
import runpy, sys, time
import wakeful
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "wakeful.cli.main":
            print("importing", flush=True)
            time.sleep(1)
sys.meta_path.insert(0, Slow())
del sys.argv[0:3]
runpy.run_module("wakeful", run_name="__main__", alter_sys=True)
"""
SLOW_IMPORT = (sys.executable, "-c", _SLOW_IMPORT)
FORKS = [*product(("probe.forks", "probe.forks_in_thread"), ("return", "exit", "raise"))]
LOCK = """
begin;
lock table wakeful.instance, wakeful.ready, wakeful.scheduled, wakeful.duty in access exclusive mode
"""


async def enqueue(sql: Connection, job_type: str, **payload: object) -> str:
    found = await sql.fetchval(
        "select job_id::text from wakeful.enqueue($1, $2, max_attempts => 1)", job_type, json.dumps(payload)
    )
    return str(found)


async def lock_everything(sql: Connection) -> None:
    """Lock all tables under a running daemon: a deadlock with what it does just then is tried again."""
    while True:
        try:
            await sql.execute(LOCK)
        except asyncpg.DeadlockDetectedError:
            await sql.execute("rollback")
        else:
            return


async def test_a_stop_waits_for_no_lock_on_the_tables(db: ClonedDatabase, sql: Connection) -> None:
    with running_daemon(db.dsn, settings=QUICK) as daemon:
        daemon.wait_for("daemon.started")
        await lock_everything(sql)
        await waiting_for_locks(db, least=2)
        began = time.monotonic()
        daemon.send(signal.SIGTERM)

        assert daemon.exit_code(timeout=60) == 0
        assert time.monotonic() - began < LONGEST_STOP_SECONDS


async def test_a_stop_at_the_start_waits_for_no_lock_on_the_tables(
    db: ClonedDatabase, sql: Connection
) -> None:
    await sql.execute(LOCK)
    with running_daemon(db.dsn, settings=QUICK) as daemon:
        await waiting_for_locks(db, least=1)
        began = time.monotonic()
        daemon.send(signal.SIGTERM)

        assert daemon.exit_code(timeout=60) == 0
        assert time.monotonic() - began < LONGEST_STOP_SECONDS


@pytest.mark.parametrize("probe", ["probe.leaves_thread", "probe.leaves_executor", "probe.leaves_child"])
@pytest.mark.case("F42")
async def test_what_a_handler_leaves_running_does_not_keep_the_process(
    db: ClonedDatabase, sql: Connection, probe: str
) -> None:
    job_id = await enqueue(sql, probe)
    with running_daemon(db.dsn, settings=QUICK) as daemon:
        daemon.wait_for("job.finished", job_id=job_id)
        daemon.send(signal.SIGTERM)

        assert daemon.exit_code(timeout=LONGEST_STOP_SECONDS) == 1
        assert daemon.events("daemon.stopped")
        assert daemon.events("thread.abandoned")


@pytest.mark.parametrize(
    ("probe", "ending"), some(FORKS, ("probe.forks", "raise"), ("probe.forks_in_thread", "exit"))
)
async def test_a_forked_copy_never_goes_on_as_a_daemon(
    db: ClonedDatabase, sql: Connection, tmp_path: Path, probe: str, ending: str
) -> None:
    ledger = tmp_path / "ledger"
    with running_daemon(db.dsn, settings=QUICK, ledger=ledger) as daemon:
        daemon.wait_for("daemon.started")
        beside = await enqueue(sql, "probe.sleep", seconds=1)
        daemon.wait_for("job.started", job_id=beside)
        forking = await enqueue(sql, probe, ending=ending)
        for job_id in (forking, beside, await enqueue(sql, "probe.ok")):
            daemon.wait_for("job.finished", job_id=job_id)
        daemon.send(signal.SIGTERM)
        assert daemon.exit_code() == 0
    assert {entry["pid"] for entry in entries(ledger) if entry["what"] == "END"} == {daemon.pid}
    result = await sql.fetchval("select result::text from wakeful.jobs where job_id = $1::uuid", forking)
    assert json.loads(result) == {"return": 0, "exit": 7, "raise": 1}[ending]


async def test_a_log_that_nobody_reads_stops_neither_jobs_nor_the_stop(
    db: ClonedDatabase, sql: Connection
) -> None:
    with running_daemon(db.dsn, settings=QUICK, around=UNREAD) as daemon:
        jobs = [await enqueue(sql, "probe.ok") for _ in range(200)]

        async def done() -> int:
            return int(await sql.fetchval("select count(*) from wakeful.jobs where status = 'DONE'"))

        await eventually(done, until=lambda n: n == len(jobs), timeout=60)
        daemon.send(signal.SIGTERM)
        assert daemon.exit_code() == 0


@pytest.mark.case("F43")
async def test_a_stop_while_the_program_is_still_imported_is_an_orderly_one(db: ClonedDatabase) -> None:
    with running_daemon(db.dsn, settings=QUICK, around=SLOW_IMPORT) as daemon:
        daemon.wait_until_said("importing")
        daemon.send(signal.SIGTERM)
        assert daemon.exit_code() == 0
        assert daemon.events("stop.requested", signal="SIGTERM")


@pytest.mark.parametrize("closed", some(["<&-", ">&-", "2>&-", "<&- >&- 2>&-"], ">&-", "<&- >&- 2>&-"))
async def test_streams_that_are_closed_are_no_trouble(
    db: ClonedDatabase, sql: Connection, closed: str
) -> None:
    shell = ("sh", "-c", f'exec "$0" "$@" {closed}')
    with running_daemon(db.dsn, settings=QUICK, around=shell) as daemon:
        job_id = await enqueue(sql, "probe.raise")

        async def died() -> bool:
            status = await sql.fetchval("select status from wakeful.jobs where job_id = $1::uuid", job_id)
            return bool(status == "DEAD")

        await eventually(died, until=bool, timeout=30)
        daemon.send(signal.SIGTERM)
        assert daemon.exit_code() == 0


async def waiting_for_locks(db: ClonedDatabase, *, least: int) -> None:
    """Wait until at least so many statements of the daemon wait for a lock."""
    watching = await db.connect(application="watching")
    waiting = 0
    while waiting < least:
        waiting = await watching.fetchval(
            "select count(*) from pg_stat_activity where datname = current_database()"
            " and application_name like 'wakeful%' and wait_event_type = 'Lock'"
        )
