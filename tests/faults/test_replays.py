"""Dead letters run again while daemons and the command line are killed: each once, and none is lost on the way."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import DEVNULL
from typing import Final

import anyio
import pytest
from anyio.abc import Process

from support.commands import PROGRAM, environment, wakeful
from support.databases import ClonedDatabase, Connection
from support.eventually import eventually
from support.process import entries, running_daemon

# With REPLAY_JOBS=5000 as many as people have after a bad night.
JOBS: Final = int(os.environ.get("REPLAY_JOBS", "400"))
TAKEN: Final = JOBS // 10
QUICK: Final = {
    "lease.default": "3s",
    "lease.long": "3s",
    "lease.beat": "500ms",
    "reaper.interval": "500ms",
    "poll.min": "200ms",
    "poll.max": "500ms",
    "drain.grace": "2s",
}
REQUEUE: Final = ("jobs", "requeue", "--type", "probe.ok")


async def bury(sql: Connection) -> None:
    """Make dead letters, with keys, of which some have been taken since."""
    await sql.execute(
        """select wakeful.enqueue('probe.ok', dedupe_key => 'k' || n, max_attempts => 1)
           from generate_series(1, $1) n""",
        JOBS,
    )
    await sql.execute(
        """with gone as (delete from wakeful.ready r returning r as job)
           select d.status
           from (select array_agg(row (g.job, 'refuse', 'a bad night', null, null, null)::wakeful.departure) as every
                 from gone g) as g
           cross join lateral wakeful.depart(g.every) as d"""
    )
    await sql.execute(
        """select wakeful.enqueue('holder', dedupe_key => 'k' || n, run_after => now() + interval '1 day')
           from generate_series(1, $1) n""",
        TAKEN,
    )


@pytest.mark.case("F59")
async def test_each_runs_once_whatever_is_killed_and_however_often_it_is_asked_for(
    db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    await bury(sql)
    ledger = tmp_path / "ledger"

    async def requeued() -> int:
        found: int = await sql.fetchval("select count(*) from wakeful.audit where action = 'requeue'")
        return found

    with running_daemon(db.dsn, settings=QUICK, ledger=ledger, tag="first") as first:
        async with requeueing(db) as one, requeueing(db) as other:
            await eventually(requeued, until=lambda seen: seen >= JOBS // 4, timeout=30)
            one.kill()
            first.send(signal.SIGKILL)
            with running_daemon(db.dsn, settings=QUICK, ledger=ledger, tag="second") as second:
                await eventually(requeued, until=lambda seen: seen >= JOBS // 2, timeout=30)
                other.kill()
                ended = await wakeful(*REQUEUE, db=db)
                await check(sql, ended.out)
                second.send(signal.SIGTERM)
                assert second.exit_code() == 0
    starts = Counter(
        (entry["job_id"], entry["run_no"]) for entry in entries(ledger) if entry["what"] == "START"
    )
    assert set(starts.values()) == {1}


@asynccontextmanager
async def requeueing(db: ClonedDatabase) -> AsyncIterator[Process]:
    """Ask for all of them, in a process to be killed."""
    async with await anyio.open_process(
        [*PROGRAM, *REQUEUE], cwd="/", env=environment(db), stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL
    ) as process:
        yield process


async def check(sql: Connection, said: str) -> None:
    """Wait until all that could run again has; the others are dead letters as before, and the command said so."""

    async def dead_and_done() -> tuple[int, int]:
        rows = await sql.fetch(
            "select status, count(*) from wakeful.jobs where job_type = 'probe.ok' group by 1"
        )
        counts: dict[str, int] = {row[0]: row[1] for row in rows}
        return counts.get("DEAD", 0), counts.get("DONE", 0)

    await eventually(dead_and_done, until=lambda seen: seen == (TAKEN, JOBS - TAKEN), timeout=60)
    assert said.count("its dedupe key is taken by job") == TAKEN
    assert await sql.fetchval("select max(attempts) from wakeful.jobs where status = 'DONE'") == 1
    times = await sql.fetch(
        "select object, count(*) from wakeful.audit where action = 'requeue' group by object"
    )
    assert Counter(row[1] for row in times) == {1: JOBS - TAKEN}
