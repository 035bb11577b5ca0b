"""The measurements themselves. Each gives one line of figures; none asserts anything."""

from __future__ import annotations

import asyncio
import socket
import statistics
import time
from collections.abc import Awaitable, Callable

import asyncpg

from bench.stage import Stage, daemon

FILL = """
select count(*) from wakeful.enqueue_many(
    (select jsonb_agg(jsonb_build_object('job_type', $1::text, 'payload', jsonb_build_object('n', g)))
     from generate_series(1, $2::integer) as g), false)
"""
LEFT = "select (select count(*) from wakeful.ready) + (select count(*) from wakeful.scheduled)"


async def drain(here: Stage, jobs: int, *, job_type: str, concurrency: int) -> str:
    """Preload no-op jobs, start the daemon, time from the first finished job to the last."""
    connection = await asyncpg.connect(here.dsn)
    await connection.execute("truncate wakeful.ready, wakeful.scheduled, wakeful.finished")
    for begin in range(0, jobs, 20_000):
        await connection.fetch(FILL, job_type, min(20_000, jobs - begin))
    before = await connection.fetchval("select pg_current_wal_lsn()")
    with daemon(here, worker__concurrency=concurrency):
        await _until(connection, "select exists (select from wakeful.finished)")
        began = time.perf_counter()
        already = await connection.fetchval("select count(*) from wakeful.finished")
        await _until(connection, f"select ({LEFT}) = 0")
        seconds = time.perf_counter() - began
    written = await connection.fetchval("select pg_current_wal_lsn() - $1::pg_lsn", before)
    await connection.close()
    rate = (jobs - already) / seconds
    wal = int(written) / jobs
    return f"drain of {jobs} {job_type}, {concurrency} workers: {rate:,.0f} jobs/s, {wal:,.0f} B of WAL a job"


async def wake(here: Stage, rounds: int) -> str:
    """An idle daemon; enqueue one job, time from its commit to the start of its handler."""
    told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    told.bind(str(here.folder / "told"))
    told.setblocking(False)  # noqa: FBT003 - the standard library's
    loop = asyncio.get_running_loop()
    connection = await asyncpg.connect(here.dsn)
    seconds: list[float] = []
    with daemon(here):
        await _until(connection, "select exists (select from wakeful.instance where state = 'live')")
        for number in range(rounds + 20):
            await connection.fetch("select wakeful.enqueue('bench.tell')")
            committed = time.perf_counter()
            await loop.sock_recv(told, 100)
            if number >= 20:
                seconds.append(time.perf_counter() - committed)
            await asyncio.sleep(0.02)
    await connection.close()
    told.close()
    cuts = statistics.quantiles(seconds, n=100)
    shown = ", ".join(f"p{part} {cuts[part - 1] * 1000:.1f} ms" for part in (50, 95, 99))
    return f"wake, {rounds} rounds: {shown}"


async def idle(here: Stage, seconds: float) -> str:
    """An idle daemon: statements and processor time a second."""
    connection = await asyncpg.connect(here.dsn)
    await connection.execute("truncate wakeful.ready, wakeful.scheduled")
    with daemon(here) as process:
        await _until(connection, "select exists (select from wakeful.instance where state = 'live')")
        await asyncio.sleep(15)  # past the start, at the slow poll
        calls, used = await _calls(connection), _cpu_seconds(process.pid)
        await asyncio.sleep(seconds)
        rate = (await _calls(connection) - calls - 1) / seconds
        share = (_cpu_seconds(process.pid) - used) / seconds
        memory = _resident_megabytes(process.pid)
    await connection.close()
    return (
        f"idle for {seconds:.0f} s: {rate:.1f} statements/s, {share:.1%} of a core, {memory:.0f} MB resident"
    )


async def _calls(connection: asyncpg.Connection[asyncpg.Record]) -> int:
    return int(await connection.fetchval("select coalesce(sum(calls), 0) from pg_stat_statements"))


def _cpu_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123 - one line of the kernel's
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def _resident_megabytes(pid: int) -> float:
    with open(f"/proc/{pid}/statm") as file:  # noqa: PTH123 - one line of the kernel's
        return int(file.read().split()[1]) * 4096 / 1e6


async def _until(connection: asyncpg.Connection[asyncpg.Record], condition: str) -> None:
    while not await connection.fetchval(condition):  # noqa: ASYNC110 - the database tells nobody
        await asyncio.sleep(0.02)


Measure = Callable[[Stage], Awaitable[str]]
