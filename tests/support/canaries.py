"""What tests of daemons in trouble ask of a database: jobs to run, how soon they began, and whether any was charged."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType

import anyio
import asyncpg

from support.databases import Connection
from support.eventually import eventually
from support.process import Daemon

# Everything that waits, some ten times quicker than by default; LEASE is what a beat renews.
LEASE_SECONDS = 4.0
QUICK: Mapping[str, object] = MappingProxyType(
    {
        "lease.default": f"{LEASE_SECONDS}s",
        "lease.long": f"{LEASE_SECONDS}s",
        "lease.beat": "500ms",
        "reaper.interval": "500ms",
        "poll.min": "200ms",
        "poll.max": "500ms",
        "drain.grace": "2s",
        "database.connect_timeout": "2s",
        "database.statement_timeout": "2s",
    }
)
# A daemon that has nothing but notifications: who waits for a poll fails.
DEAF_WITHOUT_NOTIFY: Mapping[str, object] = MappingProxyType({"poll.min": "60s", "poll.max": "60s"})
PATIENCE_SECONDS = 45.0
# `FAULTS=long make test ARGS=tests/faults`: more rounds and longer outages, for minutes.
LONG = os.environ.get("FAULTS") == "long"


Connect = Callable[[str], Awaitable[Connection]]


@asynccontextmanager
async def connecting() -> AsyncIterator[Connect]:
    """Give a function that connects to a DSN; what it opened is cut when the block ends."""
    opened: list[Connection] = []

    async def connect(dsn: str) -> Connection:
        opened.append(await asyncpg.connect(dsn, timeout=10, server_settings={"application_name": "test"}))
        return opened[-1]

    try:
        yield connect
    finally:
        for connection in opened:
            connection.terminate()


async def enqueue(sql: Connection, job_type: str, *, options: str = "", **payload: object) -> str:
    """Enqueue a job and give its id. `options`: more arguments, such as "run_after => now()"."""
    more = f", {options}" if options else ""
    found = await sql.fetchval(
        f"select job_id::text from wakeful.enqueue($1, $2{more})", job_type, json.dumps(payload)
    )
    return str(found)


async def enqueue_many(
    sql: Connection, job_type: str, number: int, *, options: str = "", **payload: object
) -> None:
    """Enqueue so many jobs in one transaction."""
    more = f", {options}" if options else ""
    await sql.execute(
        f"select wakeful.enqueue('{job_type}', '{json.dumps(payload)}'{more}) from generate_series(1, {number})"
    )


async def statuses(sql: Connection) -> dict[str, int]:
    """How many jobs there are of each status."""
    rows = await sql.fetch("select status, count(*) as jobs from wakeful.jobs group by status")
    return {row["status"]: row["jobs"] for row in rows}


async def all_done(sql: Connection, jobs: int, *, timeout: float = PATIENCE_SECONDS) -> None:
    """Wait until so many jobs are done, and none is anything else."""
    await eventually(lambda: statuses(sql), until=lambda seen: seen == {"DONE": jobs}, timeout=timeout)


async def pickup(sql: Connection, job_id: str) -> float:
    """Seconds from the time at which a job was due to its start, by the database's clock."""
    seconds = await sql.fetchval(
        "select extract(epoch from started_at - greatest(run_after, created_at)) from wakeful.jobs"
        " where job_id = $1::uuid",
        job_id,
    )
    return float(seconds)


async def charged(sql: Connection, jobs: Collection[str] | None = None) -> list[tuple[object, ...]]:
    """The jobs (all, or these) that count more than their one attempt, run or owner; or anything that failed."""
    rows = await sql.fetch(
        """select job_id::text, status, attempts, run_no, lost, last_error from wakeful.jobs
           where (attempts, run_no, lost) <> (1, 1, 0) or last_error is not null"""
    )
    return [tuple(row) for row in rows if jobs is None or row["job_id"] in jobs]


async def terminate(sql: Connection, application: str = "wakeful%") -> int:
    """End the sessions of daemons that call themselves so; gives how many there were."""
    ended: int = await sql.fetchval(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity"
        " where datname = current_database() and application_name like $1",
        application,
    )
    return ended


async def get(daemon: Daemon, path: str) -> tuple[int, str]:
    """Ask the daemon's HTTP server."""
    return await anyio.to_thread.run_sync(_get, daemon.port(), path)


def _get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()
