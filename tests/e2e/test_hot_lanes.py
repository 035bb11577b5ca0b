"""Two daemons, of which one polls a lane closely, so that nobody notifies about it, and then leaves it (I18).

The other is idle, and its polls are at least sixteen seconds apart, by their settings: a job that it starts sooner was
found because the first one said that it leaves, or because the first one's mark had run out.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from support.databases import ClonedDatabase, Connection
from support.eventually import eventually
from support.process import Daemon, running_daemon

RARELY = {"poll.min": "20s", "poll.max": "60s"}
SHORTEST_POLL = timedelta(seconds=16)
MANY = """
select count(*) from wakeful.enqueue_many((
    select jsonb_agg('{"job_type": "probe.sleep", "payload": {"seconds": 0.005}}'::jsonb) from generate_series(1, 300)))
"""
ONE = """select job_id from wakeful.enqueue('probe.sleep', '{"seconds": 0.005}')"""
HOT = "select bool_or(hot_until > clock_timestamp() + interval '500 milliseconds') from wakeful.lane"


@contextmanager
def busy_and_idle(db: ClonedDatabase, ledger: Path) -> Iterator[tuple[Daemon, Daemon]]:
    """The first takes a hundred jobs at once and makes the lane hot; the second takes a few, which makes none hot."""
    with (
        running_daemon(
            db.dsn, ledger=ledger, tag="busy", settings={**RARELY, "worker.concurrency": 100}
        ) as busy,
        running_daemon(
            db.dsn, ledger=ledger, tag="idle", settings={**RARELY, "worker.concurrency": 1}
        ) as idle,
    ):
        for daemon in (busy, idle):
            daemon.wait_for("daemon.started", timeout=60.0)
            daemon.wait_for("listener.connected")
        yield busy, idle


async def make_hot(sql: Connection) -> None:
    """Have so much to do that the lane is hot, and wait until all of it is done."""

    while not await sql.fetchval(HOT):
        await sql.execute(MANY)
        await eventually(lambda: sql.fetchval("select not exists (select from wakeful.ready)"), timeout=60.0)


async def waited(sql: Connection, job_id: object) -> timedelta:
    """Wait until the job is done; gives how long it had waited, by the database's clock."""
    found = "select started_at - created_at from wakeful.jobs where job_id = $1 and status = 'DONE'"
    got = await eventually(lambda: sql.fetchval(found, job_id), timeout=60.0)
    assert isinstance(got, timedelta), got
    return got


@pytest.mark.case("I18")
async def test_after_a_kill_a_job_that_nobody_was_told_of_starts_when_the_mark_has_run_out(
    db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    with busy_and_idle(db, tmp_path / "ledger") as (busy, _idle):
        await make_hot(sql)
        busy.send(signal.SIGKILL)
        job_id = await sql.fetchval(ONE)

        assert await waited(sql, job_id) < SHORTEST_POLL / 2


@pytest.mark.case("I18")
async def test_after_a_drain_a_job_starts_at_once(
    db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    with busy_and_idle(db, tmp_path / "ledger") as (busy, _idle):
        await make_hot(sql)
        # As if it would not run out: it is over because the drain took it back.
        await sql.execute("update wakeful.lane set hot_until = clock_timestamp() + interval '1 hour'")
        busy.send(signal.SIGTERM)
        busy.wait_for("daemon.quiesced")
        assert await sql.fetchval("select bool_or(hot_until > clock_timestamp()) from wakeful.lane") is False
        job_id = await sql.fetchval(ONE)

        assert await waited(sql, job_id) < SHORTEST_POLL / 2
