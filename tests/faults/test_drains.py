"""A stop under every kind of load: what runs ends or is handed back, nothing new begins, and it ends in time."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import anyio
import pytest

from support.databases import ClonedDatabase, Connection
from support.fleets import LEASE, SETTINGS, STALL, enqueue, reached, row_of, running_fleet
from support.ledger import at_of
from support.process import running_daemon
from support.proxy import Mode, Proxy

LOOK_SECONDS = 0.1


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def look(port: int) -> tuple[int, int, int, str]:
    """Statuses of /healthz, /readyz and /metrics, and why it is not ready."""
    ready, reasons = get(port, "/readyz")
    return get(port, "/healthz")[0], ready, get(port, "/metrics")[0], json.loads(reasons)["reasons"]["phase"]


@pytest.mark.case("F34", "F38", "F39", "F45")
async def test_short_jobs_end_long_ones_go_back_a_cancelled_one_is_so_and_probes_tell_the_truth(
    db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    with running_fleet(db.dsn, tmp_path) as fleet:
        daemon = fleet.start("only", drain_grace="4s")
        short = [await enqueue(sql, "probe.sleep", seconds=1) for _ in range(2)]
        long = [await enqueue(sql, "probe.sleep", seconds=600, options="max_attempts => 1") for _ in range(2)]
        cancelled = await enqueue(sql, "probe.sleep", seconds=600)
        await fleet.noted("START", count=5)
        seen, port = [], daemon.port()

        daemon.send(signal.SIGTERM)
        daemon.wait_for("phase.entered", phase="drain")
        await sql.execute("select wakeful.cancel($1::uuid)", cancelled)
        while not daemon.events("phase.entered", phase="flush"):
            try:
                seen.append(await anyio.to_thread.run_sync(look, port))
            except (OSError, http.client.HTTPException):  # it has just ended
                break
            await anyio.sleep(LOOK_SECONDS)
        assert daemon.exit_code() == 0

        assert len(seen) >= 2
        assert {tuple(statuses) for *statuses, _ in seen} == {(200, 503, 200)}
        assert all(why.startswith("stopping") for *_, why in seen)
        for job_id in short:
            assert (await row_of(sql, job_id))["status"] == "DONE"
        for job_id in long:
            row = await row_of(sql, job_id)
            assert (row["status"], row["attempts"], row["handed_back"]) == ("PENDING", 0, 1)
        assert (await row_of(sql, cancelled))["status"] == "CANCELLED"
        assert await sql.fetchval("select count(*) from wakeful.alert_outbox") == 0


@pytest.mark.case("F47")
async def test_under_a_flood_nothing_is_started_after_the_stop_and_nothing_is_left_claimed(
    db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    flood = (
        "select count(e) from generate_series(1, 3000) n, wakeful.enqueue('probe.ok', subject => n::text) e"
    )
    with running_fleet(db.dsn, tmp_path) as fleet:
        daemon = fleet.start("only")
        for number in range(100):
            await sql.execute("select wakeful.alert($1, $2)", "flood", f"number {number}")
        await sql.execute(flood)
        await fleet.noted("START", count=50)
        fleet.ledger.note("TERM", tag="only")
        daemon.send(signal.SIGTERM)
        await sql.execute(flood)
        assert daemon.exit_code() == 0

        (term,) = fleet.ledger.lines("TERM")
        late = [at_of(line) - at_of(term) for line in fleet.ledger.lines("START")]
        assert max(late) <= 0.5 + STALL
        quiet = daemon.events("phase.entered", phase="drain")[0]["timestamp"]
        claims = [str(line["timestamp"]) for line in daemon.events("job.claimed")]
        assert all(claim <= str(quiet) for claim in claims)
        assert await sql.fetchval("select count(*) from wakeful.ready where owner is not null") == 0
        assert await sql.fetchval("select count(*) from wakeful.jobs where status = 'PENDING'") >= 3000


@pytest.mark.case("F28")
async def test_a_drain_of_several_leases_keeps_its_jobs(
    db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    """All workers are taken, by handlers that wait for long and by threads: the beat needs none of theirs."""
    with running_fleet(db.dsn, tmp_path) as fleet:
        first = fleet.start("first", drain_grace="30s", worker_concurrency=4, worker_threads=2)
        jobs = [await enqueue(sql, probe, seconds=2 * LEASE) for probe in ["probe.sleep", "probe.thread"] * 2]
        await fleet.noted("START", count=4)
        second = fleet.start("second")
        first.send(signal.SIGTERM)
        first.wait_for("phase.entered", phase="drain")
        assert first.exit_code() == 0
        assert not second.events("jobs.rescued")
        for job_id in jobs:
            row = await row_of(sql, job_id)
            assert (row["status"], row["run_no"]) == ("DONE", 1)
        assert {line["tag"] for line in fleet.ledger.lines("START")} == {"first"}


@pytest.mark.case("F28")
def test_a_beat_that_comes_too_rarely_for_its_lease_is_refused() -> None:
    with running_daemon("postgresql:///none", settings={**SETTINGS, "lease.beat": "3s"}) as daemon:
        assert daemon.exit_code() == 78
    assert "lease" in "\n".join(daemon.raw)


@pytest.mark.case("F35", "F42", "F44")
async def test_with_all_at_once_in_its_way_a_stop_takes_its_grace_and_five_seconds(
    db: ClonedDatabase, sql: Connection, tmp_path: Path, proxy: Proxy
) -> None:
    """Forty queues, handlers and a thread that do not end, clients that never leave, and then no database."""
    with running_fleet(db.dsn, tmp_path) as fleet:
        daemon = fleet.start("only", dsn=proxy.dsn(db.name), database_connect_timeout="2s")
        for number in range(40):
            await enqueue(sql, "probe.ok", options=f"queue => 'queue {number}'")
        stuck = [
            await enqueue(sql, probe, seconds=600) for probe in ("probe.deaf", "probe.thread", "probe.sleep")
        ]
        await fleet.noted("START", count=43)
        with clients(daemon.port()):
            proxy.set(Mode.BLACKHOLE)
            began = time.monotonic()
            daemon.send(signal.SIGTERM)
            code = daemon.exit_code(timeout=60)
            took = time.monotonic() - began
        assert code == 1, "two would not end"
        # By the supervisor at the end of the stop, or by the watchdog, since the lease ran out before that (I13).
        named = str(
            [line["jobs"] for line in daemon.events("thread.abandoned") + daemon.events("loop.stalled")]
        )
        assert stuck[0] in named and stuck[1] in named and stuck[2] not in named
        assert took <= 2.0 + 1.0 + 5.0 + STALL
        proxy.set(Mode.PASS)
        # Nothing could be written, so the leases bring them back.
        fleet.ledger.note("KILLED", tag="only")
        fleet.start("next")
        for job_id in stuck:
            await reached(sql, job_id, "RUNNING")


@contextmanager
def clients(port: int) -> Iterator[None]:
    """Twenty that are kept alive, five that never read the metrics that they ask for, one with half a request."""
    with ExitStack() as stack:
        opened = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10)) for _ in range(26)
        ]
        for connection in opened[:20]:
            connection.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
        for connection in opened[20:25]:
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 50)
        opened[25].sendall(b"GET /readyz HT")
        yield
