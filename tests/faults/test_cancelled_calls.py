"""Jobs that are cancelled at random moments, in the midst of their own database calls, on a slow way to the server."""

from __future__ import annotations

import random

import anyio
import pytest

from support.canaries import LONG, QUICK, enqueue, statuses
from support.databases import ClonedDatabase, Connection
from support.eventually import eventually
from support.process import running_daemon
from support.proxy import Mode, Proxy

JOBS = 2000 if LONG else 150


@pytest.mark.timeout(900 if LONG else 120)
@pytest.mark.case("F83", "F38")
async def test_jobs_cancelled_at_any_moment_leave_no_session_and_no_transaction_behind(
    db: ClonedDatabase, sql: Connection, proxy: Proxy
) -> None:
    chance = random.Random(83)
    sessions = (
        "select state, count(*) as n from pg_stat_activity"
        " where datname = current_database() and application_name like 'wakeful%' group by state"
    )
    with running_daemon(proxy.dsn(db.name), settings={**QUICK, "worker.concurrency": 20}) as daemon:
        daemon.wait_for("daemon.started")
        proxy.set(Mode.DELAY, seconds=0.01)
        jobs: list[str] = []
        for number in range(JOBS):
            jobs.append(await enqueue(sql, "probe.steps", steps=20))
            if number >= 10:
                await sql.fetchval(
                    "select wakeful.cancel($1::uuid)", jobs[chance.randint(number - 10, number)]
                )
            await anyio.sleep(chance.uniform(0, 0.02))
        proxy.set(Mode.PASS)
        await eventually(
            lambda: statuses(sql), until=lambda seen: set(seen) <= {"DONE", "CANCELLED"}, timeout=60
        )
        seen = await statuses(sql)
        assert seen["CANCELLED"] > 0
        assert sum(seen.values()) == JOBS

        async def states() -> dict[str, int]:
            return {row["state"]: row["n"] for row in await sql.fetch(sessions)}

        await eventually(states, until=lambda now: set(now) == {"idle"} and now["idle"] <= 10, timeout=20)
        assert not any("another operation is in progress" in line for line in daemon.raw)
        assert not daemon.events("database.lost")
