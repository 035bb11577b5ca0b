"""Daemons that were paused or can't reach the database, and stops however they come: what is said, what is not done."""

from __future__ import annotations

import json
import signal
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import anyio
import pytest

from support.databases import ClonedDatabase, Connection
from support.eventually import eventually
from support.fleets import LEASE, SETTINGS, STALL, enqueue, running_fleet
from support.forms import some
from support.process import running_daemon
from support.proxy import Mode, Proxy

WITHOUT_UVLOOP = (
    "import runpy, sys; sys.modules['uvloop'] = None; del sys.argv[0:3];"
    " runpy.run_module('wakeful', run_name='__main__', alter_sys=True)"
)
AROUND = {
    "directly": (),
    "through a shell": ("sh", "-c", 'exec "$0" "$@"'),
    "without uvloop": (sys.executable, "-c", WITHOUT_UVLOOP),
}


def get(port: int, path: str) -> tuple[int, str, float]:
    """Status, body and seconds."""
    began = time.monotonic()
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
            return answer.status, answer.read().decode(), time.monotonic() - began
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode(), time.monotonic() - began


@pytest.mark.case("F33", "I5")
async def test_a_handler_that_wakes_up_after_another_has_its_job_writes_no_step_any_more(
    db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    with running_fleet(db.dsn, tmp_path) as fleet:
        fleet.start("former")
        job_id = await enqueue(sql, "probe.reports_on", seconds=600)
        await fleet.noted("STEP", tag="former")
        fleet.pause("former")
        fleet.start("current")
        await fleet.noted("STEP", tag="current")
        before = len(fleet.ledger.lines("STEP", tag="former"))
        fleet.resume("former")
        (refused,) = await fleet.noted("REFUSED", tag="former")  # and then a hundred more at once
        assert refused["error"] in ("LeaseLost", "CancelledError")
        assert len(fleet.ledger.lines("STEP", tag="former")) <= before + 1

        async def shown() -> list[str]:
            query = "select document::text from wakeful.progress where job_id = $1::uuid"
            return [step["message"] for step in json.loads(str(await sql.fetchval(query, job_id)))["steps"]]

        assert await eventually(shown, until=lambda seen: seen != [None]) == ["of run 2"]
        assert fleet.ledger.unexplained(lease=LEASE) == []


@pytest.mark.case("F88", "F80")
async def test_with_the_database_out_of_reach_it_is_alive_not_ready_and_measured_at_once(
    db: ClonedDatabase, tmp_path: Path, proxy: Proxy
) -> None:
    with running_fleet(db.dsn, tmp_path) as fleet:
        daemon = fleet.start("only", dsn=proxy.dsn(db.name), database_connect_timeout="1s")
        daemon.wait_for("server.accepted")  # from here on it claims, and so finds out soon
        port, answers = daemon.port(), []
        proxy.set(Mode.BLACKHOLE)
        began = time.monotonic()

        async def unready() -> bool:
            answers.extend(
                [await anyio.to_thread.run_sync(get, port, path) for path in ("/healthz", "/metrics")]
            )
            status, body, _ = await anyio.to_thread.run_sync(get, port, "/readyz")
            print(status, body)
            return status == 503 and "database" in json.loads(body)["reasons"]

        await eventually(unready, timeout=30)
        assert time.monotonic() - began <= 5.0 + STALL
        for _ in range(10):
            assert await unready()
        assert {status for status, _, _ in answers} == {200}
        assert max(seconds for _, _, seconds in answers) <= 1.0 + STALL
        assert "wakeful_beat_age_seconds" in answers[-1][1], "values have their age"
        proxy.set(Mode.PASS)
        daemon.wait_for("database.restored")
        assert fleet.stop("only") == 0


@pytest.mark.case("F43")
@pytest.mark.parametrize("way", some([*AROUND], "through a shell", "without uvloop"))
async def test_a_stop_is_orderly_however_it_was_started_and_however_early(
    db: ClonedDatabase, way: str
) -> None:
    for delay in some((0.0, 0.05, 0.2, 0.5, 1.0), 0.2):
        with running_daemon(db.dsn, settings=SETTINGS, around=AROUND[way]) as daemon:
            await anyio.sleep(delay)
            daemon.send(signal.SIGTERM)
            code = daemon.exit_code()
            # Before the interpreter has come to our first line nothing is there that could be put in order.
            assert code == 0 or (code == -signal.SIGTERM and not daemon.raw), daemon.raw
    with running_daemon(db.dsn, settings=SETTINGS, around=AROUND[way]) as daemon:
        daemon.wait_for("daemon.started")
        daemon.send(signal.SIGTERM)
        assert daemon.exit_code() == 0
        assert [line["phase"] for line in daemon.events("phase.entered")][-1] == "close"
