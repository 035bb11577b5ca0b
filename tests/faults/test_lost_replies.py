"""Commits whose reply is lost, and statements that are stopped before they commit: nothing is lost, or done twice."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from support.canaries import LEASE_SECONDS, QUICK, all_done, charged, enqueue
from support.databases import ClonedDatabase, Connection
from support.eventually import eventually, looked
from support.ledger import Ledger
from support.process import running_daemon
from support.proxy import Keep, Proxy
from wakeful.store.statements import statements

CLAIM, FINISH, SETTLE = "claim_jobs", "finish_jobs", "settle_jobs"


async def stopped(proxy: Proxy, kept: Keep) -> int:
    """Wait until the gate has stopped somebody; gives the link. A reply in the proxy is of what is done."""
    (link,) = await eventually(
        looked(
            lambda: [one for one in proxy.links() if one.gated is kept and (kept is Keep.COMMIT or one.held)]
        )
    )
    return link.number


@pytest.mark.case("I3", "I8")
@pytest.mark.parametrize("kept", Keep)
@pytest.mark.parametrize("statement", [CLAIM, FINISH])
async def test_a_claim_and_a_finish_that_are_cut_off_at_their_commit_lose_nothing_and_run_nothing_twice(
    db: ClonedDatabase, sql: Connection, proxy: Proxy, tmp_path: Path, statement: str, kept: Keep
) -> None:
    ledger = Ledger(tmp_path / "ledger")
    with running_daemon(proxy.dsn(db.name), settings=QUICK, ledger=ledger.path, tag="one") as daemon:
        daemon.wait_for("daemon.started")
        first = await enqueue(sql, "probe.ok")
        daemon.wait_for("job.finished", job_id=first)
        proxy.gate(statements()[statement], kept)
        job_id = await enqueue(sql, "probe.sleep", seconds=0.1)
        proxy.reset(link=await stopped(proxy, kept))
        await all_done(sql, 2)
        assert not daemon.events("job.lost")
        # A claim whose reply was lost is given back whole and claimed anew: no attempt is charged, and none ran twice.
        assert len(ledger.lines("START", job_id=job_id)) == 1
        assert await sql.fetchval("select max(attempts) from wakeful.jobs") == 1
        assert await sql.fetchval("select max(lost) from wakeful.jobs") == 0
        await eventually(looked(lambda: daemon.events("job.finished", job_id=job_id)))


@pytest.mark.case("I3")
async def test_a_dead_letter_whose_reply_was_lost_is_told_once(
    db: ClonedDatabase, sql: Connection, proxy: Proxy
) -> None:
    with running_daemon(proxy.dsn(db.name), settings=QUICK) as daemon:
        daemon.wait_for("daemon.started")
        proxy.gate(statements()[SETTLE], Keep.REPLY)
        job_id = await enqueue(sql, "probe.raise", options="max_attempts => 1")
        proxy.reset(link=await stopped(proxy, Keep.REPLY))
        daemon.wait_for("job.died", job_id=job_id)
        assert await sql.fetchval("select count(*) from wakeful.alert_outbox where kind = 'job_dead'") == 1
        assert await sql.fetchval("select status from wakeful.jobs where job_id = $1::uuid", job_id) == "DEAD"


@pytest.mark.case("I1", "I2", "I5")
async def test_a_result_whose_row_its_own_dead_session_keeps_locked_for_longer_than_the_lease_is_written(
    db: ClonedDatabase, sql: Connection, proxy: Proxy, tmp_path: Path
) -> None:
    """The daemon gives the connection up, and the server does not know; the owner beats, so nobody takes the job."""
    ledger = Ledger(tmp_path / "ledger")
    with (
        running_daemon(proxy.dsn(db.name), settings=QUICK, ledger=ledger.path, tag="one") as one,
        running_daemon(
            db.dsn, settings={**QUICK, "worker.queues": "other"}, ledger=ledger.path, tag="two"
        ) as two,
    ):
        for daemon in (one, two):
            daemon.wait_for("daemon.started")
        proxy.gate(statements()[FINISH], Keep.COMMIT)
        job_id = await enqueue(sql, "probe.ok")
        link = await stopped(proxy, Keep.COMMIT)
        await anyio.sleep(1.25 * LEASE_SECONDS)
        assert not one.events("job.finished")
        proxy.reset(link=link)
        one.wait_for("job.finished", job_id=job_id)
        assert not two.events("jobs.rescued")
        assert await charged(sql) == []
        assert len(ledger.lines("START")) == 1
