"""The life of a daemon as a process: phases, signals, exit codes, what a stop does to the jobs that run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path

import anyio
import pytest

from support.cluster import Cluster, execute
from support.databases import ClonedDatabase, Connection
from support.eventually import eventually
from support.process import Daemon, entries, running_daemon

QUICK = {"drain.grace": "1s", "drain.interrupt": "1s", "poll.min": "200ms", "poll.max": "500ms"}


async def enqueue(sql: Connection, job_type: str, **payload: object) -> str:
    found = await sql.fetchval(
        "select job_id::text from wakeful.enqueue($1, $2)", job_type, json.dumps(payload)
    )
    return str(found)


async def row_of(sql: Connection, job_id: str) -> dict[str, object]:
    row = await sql.fetchrow(
        "select *, run_after - now() > interval '3 seconds' as later from wakeful.jobs where job_id = $1::uuid",
        job_id,
    )
    assert row is not None
    return dict(row)


def phases(daemon: Daemon) -> list[object]:
    return [line["phase"] for line in daemon.events("phase.entered")]


def get(daemon: Daemon, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{daemon.port()}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


async def test_an_idle_daemon_goes_through_its_phases_and_exits_0(
    db: ClonedDatabase, sql: Connection
) -> None:
    with running_daemon(db.dsn) as daemon:
        daemon.wait_for("daemon.started")
        daemon.send(signal.SIGTERM)

        assert daemon.exit_code() == 0
        assert phases(daemon) == ["serve", "quiesce", "drain", "flush", "close"]
        assert daemon.events("instance.retired")
    assert await sql.fetchval("select count(*) from wakeful.instance") == 0


async def test_a_running_job_is_finished_within_the_grace(db: ClonedDatabase, sql: Connection) -> None:
    job_id = await enqueue(sql, "probe.sleep", seconds=1)
    with running_daemon(db.dsn, settings={"drain.grace": "20s"}) as daemon:
        daemon.wait_for("job.started", job_id=job_id)
        daemon.send(signal.SIGTERM)

        assert daemon.exit_code() == 0
    assert (await row_of(sql, job_id))["status"] == "DONE"


@pytest.mark.case("F34", "F39")
async def test_after_the_grace_a_job_is_handed_back_and_charged_nothing(
    db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    job_id = await enqueue(sql, "probe.sleep", seconds=600)
    with running_daemon(db.dsn, settings=QUICK, ledger=tmp_path / "ledger") as daemon:
        daemon.wait_for("job.started", job_id=job_id)
        daemon.send(signal.SIGTERM)

        assert daemon.exit_code() == 0
        assert "interrupt" in phases(daemon)
    row = await row_of(sql, job_id)
    assert (row["status"], row["attempts"], row["handed_back"], row["run_no"]) == ("PENDING", 0, 1, 1)
    assert [entry["what"] for entry in entries(tmp_path / "ledger")] == ["START", "CANCELLED"]
    assert await sql.fetchval("select count(*) from wakeful.alert_outbox") == 0


async def test_a_second_signal_interrupts_at_once(db: ClonedDatabase, sql: Connection) -> None:
    job_id = await enqueue(sql, "probe.sleep", seconds=600)
    with running_daemon(db.dsn, settings={"drain.grace": "600s"}) as daemon:
        daemon.wait_for("job.started", job_id=job_id)
        daemon.send(signal.SIGTERM)
        daemon.wait_for("phase.entered", phase="drain")
        daemon.send(signal.SIGTERM)

        assert daemon.exit_code() == 0
    assert (await row_of(sql, job_id))["handed_back"] == 1


async def test_a_third_signal_ends_the_process_at_once(db: ClonedDatabase, sql: Connection) -> None:
    job_id = await enqueue(sql, "probe.deaf", seconds=600)
    with running_daemon(db.dsn, settings={"drain.grace": "600s", "drain.interrupt": "600s"}) as daemon:
        daemon.wait_for("job.started", job_id=job_id)
        daemon.send(signal.SIGTERM)
        daemon.wait_for("phase.entered", phase="drain")
        daemon.send(signal.SIGINT)
        daemon.wait_for("phase.entered", phase="interrupt")
        daemon.send(signal.SIGTERM)

        assert daemon.exit_code() == 1
    assert (await row_of(sql, job_id))["status"] == "RUNNING"


@pytest.mark.case("F35", "F42", "I13")
@pytest.mark.parametrize("probe", ["probe.deaf", "probe.thread"])
async def test_a_handler_that_will_not_end_is_named_and_its_job_kept_from_others(
    db: ClonedDatabase, sql: Connection, probe: str
) -> None:
    job_id = await enqueue(sql, probe, seconds=600)
    with running_daemon(db.dsn, settings=QUICK) as daemon:
        daemon.wait_for("job.started", job_id=job_id)
        daemon.send(signal.SIGTERM)

        assert daemon.exit_code() == 1
        assert job_id in str(daemon.events("thread.abandoned")[0]["jobs"])
    row = await row_of(sql, job_id)
    assert (row["status"], row["attempts"], row["handed_back"], row["later"]) == ("PENDING", 0, 1, True)
    assert await sql.fetchval("select count(*) from wakeful.instance") == 0


@pytest.mark.case("F45", "F47")
async def test_a_draining_daemon_claims_nothing_and_says_so(db: ClonedDatabase, sql: Connection) -> None:
    running = await enqueue(sql, "probe.sleep", seconds=600)
    with running_daemon(db.dsn, settings={**QUICK, "drain.grace": "600s"}) as daemon:
        daemon.wait_for("job.started", job_id=running)
        assert get(daemon, "/readyz")[0] == 200
        daemon.send(signal.SIGTERM)
        daemon.wait_for("phase.entered", phase="drain")
        late = await enqueue(sql, "probe.ok")

        status, body = get(daemon, "/readyz")
        assert (status, json.loads(body)["phase"]) == (503, "drain")
        assert get(daemon, "/livez")[0] == 200
        assert get(daemon, "/healthz")[0] == 200
        assert "wakeful_" in get(daemon, "/metrics")[1]
        daemon.send(signal.SIGTERM)
        assert daemon.exit_code() == 0
    assert (await row_of(sql, late))["run_no"] == 0


async def test_until_empty_runs_what_is_due_and_exits_0(db: ClonedDatabase, sql: Connection) -> None:
    jobs = [await enqueue(sql, "probe.ok") for _ in range(30)]
    with running_daemon(db.dsn, "--drain") as daemon:
        assert daemon.exit_code() == 0
    done = await sql.fetchval("select count(*) from wakeful.jobs where status = 'DONE'")
    assert done == len(jobs)


async def test_a_bare_notify_from_anyone_only_wakes(db: ClonedDatabase, sql: Connection) -> None:
    with running_daemon(db.dsn, settings={"poll.min": "60s", "poll.max": "60s"}) as daemon:
        daemon.wait_for("listener.connected")
        daemon.wait_for("daemon.started")
        for payload in ("", "nonsense", "9" * 30, "\u2603"):
            unheard = "select job_id::text from wakeful.enqueue('probe.ok', notify => false)"
            job_id = await sql.fetchval(unheard)
            await sql.execute(f"notify wakeful, '{payload}'")

            daemon.wait_for("job.finished", job_id=job_id)
            later = await enqueue(sql, "probe.ok")
            daemon.wait_for("job.finished", job_id=later)
        # The name of a lane that there is not: it is looked at, and nobody is the worse for it.
        await sql.execute("notify wakeful, '-1'")
        last = await enqueue(sql, "probe.ok")
        daemon.wait_for("job.finished", job_id=last)


@pytest.mark.case("F80")
async def test_a_database_that_is_not_there_yet_is_waited_for(own_cluster: Cluster) -> None:
    dsn = own_cluster.dsn()
    await execute(dsn, "begin;\n" + (Path(__file__).parents[2] / "schema.sql").read_text() + "commit;")
    own_cluster.postmaster.stop()
    with running_daemon(dsn) as daemon:
        daemon.wait_for("database.lost")
        status, body = get(daemon, "/readyz")
        assert status == 503
        assert "database" in json.loads(body)["reasons"]
        assert get(daemon, "/livez")[0] == 200

        own_cluster.postmaster.start()
        daemon.wait_for("daemon.started")
        daemon.send(signal.SIGTERM)
        assert daemon.exit_code() == 0


@pytest.mark.case("F80")
async def test_a_stop_while_the_database_is_away_is_clean_and_quick(own_cluster: Cluster) -> None:
    own_cluster.postmaster.stop()
    with running_daemon(own_cluster.dsn()) as daemon:
        daemon.wait_for("database.lost")
        daemon.send(signal.SIGTERM)
        assert daemon.exit_code(timeout=20) == 0


async def test_a_missing_schema_is_exit_78_with_the_command_that_helps(own_cluster: Cluster) -> None:
    with running_daemon(own_cluster.dsn()) as daemon:
        assert daemon.exit_code() == 78
    assert "wakeful migrate" in "\n".join(daemon.raw)


async def test_a_mistake_in_the_configuration_is_exit_78(db: ClonedDatabase) -> None:
    with running_daemon(db.dsn, settings={"worker.concurrency": "many", "lease.beat": "20s"}) as daemon:
        assert daemon.exit_code() == 78
    text = "\n".join(daemon.raw)
    assert "worker.concurrency" in text
    assert "lease" in text


def test_no_database_given_is_a_mistake_and_not_an_outage() -> None:
    with running_daemon("") as daemon:
        assert daemon.exit_code(timeout=20) == 78
    assert "DATABASE_URL" in "\n".join(daemon.raw)


async def _entered(ledger: Path) -> bool:
    return bool(entries(ledger))


@pytest.mark.case("F20")
async def test_jobs_of_a_killed_daemon_run_elsewhere(
    db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    quick = {"lease.default": "3s", "lease.long": "3s", "lease.beat": "500ms", "reaper.interval": "500ms"}
    job_id = await enqueue(sql, "probe.once_long", seconds=600)
    ledger = tmp_path / "ledger"
    with running_daemon(db.dsn, settings=quick, ledger=ledger, tag="first") as first:
        first.wait_for("job.started", job_id=job_id)
        await eventually(partial(_entered, ledger))
        first.send(signal.SIGKILL)  # before the second starts, however long that takes
        with running_daemon(db.dsn, settings=quick, ledger=ledger, tag="second") as second:
            second.wait_for("job.finished", job_id=job_id, timeout=30)
    row = await row_of(sql, job_id)
    assert (row["status"], row["attempts"], row["run_no"], row["lost"]) == ("DONE", 1, 2, 1)
    assert "lease-expired reclaim" in str(row["last_error"])
    assert [(entry["tag"], entry["what"]) for entry in entries(ledger)] == [
        ("first", "START"),
        ("second", "START"),
        ("second", "END"),
    ]


@pytest.mark.case("F27", "I14")
async def test_a_handler_that_blocks_the_loop_is_named_and_loses_no_lease(
    db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    quick = {"lease.default": "2s", "lease.long": "2s", "lease.beat": "500ms", "reaper.interval": "300ms"}
    ledger = tmp_path / "ledger"
    with (
        running_daemon(db.dsn, settings=quick, ledger=ledger, tag="blocked") as blocked,
        running_daemon(
            db.dsn, settings={**quick, "worker.queues": "other"}, ledger=ledger, tag="other"
        ) as other,
    ):
        other.wait_for("daemon.started")
        sleeping = await enqueue(sql, "probe.sleep", seconds=5)
        blocked.wait_for("job.started", job_id=sleeping)
        job_id = await enqueue(sql, "probe.block", seconds=6)
        warned = blocked.wait_for("loop.blocked", job_id=job_id)
        assert "time.sleep" in str(warned["stack"])
        blocked.wait_for("job.finished", job_id=job_id, timeout=30)
        blocked.wait_for("job.finished", job_id=sleeping, timeout=30)
        assert not other.events("jobs.rescued")
    assert (await row_of(sql, job_id))["run_no"] == 1
    assert (await row_of(sql, sleeping))["run_no"] == 1


@pytest.mark.case("F43")
async def test_it_works_as_process_1(db: ClonedDatabase, sql: Connection) -> None:
    unshare = shutil.which("unshare")
    if (
        unshare is None
        or (await anyio.run_process([unshare, "--pid", "--fork", "true"], check=False)).returncode
    ):
        pytest.skip("needs `unshare --pid`, which is root's: run as root, with util-linux installed")
    job_id = await enqueue(sql, "probe.sleep", seconds=1)
    with running_daemon(
        db.dsn,
        settings={"drain.grace": "20s"},
        around=(unshare, "--pid", "--fork", "--mount-proc", "--kill-child"),
    ) as daemon:
        started = daemon.wait_for("job.started", job_id=job_id)
        assert started
        assert daemon.wait_for("daemon.started")["pid"] == 1
        await _send_to_child(daemon, signal.SIGTERM)
        assert daemon.exit_code() == 0
    assert (await row_of(sql, job_id))["status"] == "DONE"


async def _send_to_child(daemon: Daemon, signum: signal.Signals) -> None:
    async def children() -> str:
        return Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children").read_text().strip()

    child = await eventually(children)
    os.kill(int(child), signum)


async def test_no_exit_of_a_handler_ends_the_daemon(db: ClonedDatabase, sql: Connection) -> None:
    jobs = [await enqueue(sql, probe) for probe in ("probe.exit", "probe.exit_elsewhere", "probe.ok")]
    with running_daemon(db.dsn) as daemon:
        daemon.wait_for("job.retried", job_id=jobs[0])
        daemon.wait_for("job.finished", job_id=jobs[1])
        daemon.wait_for("job.finished", job_id=jobs[2])
        assert daemon.events("exit.refused")
        daemon.send(signal.SIGTERM)
        assert daemon.exit_code() == 0


async def test_a_loop_that_is_stopped_from_outside_of_an_attempt_goes_on(
    db: ClonedDatabase, sql: Connection
) -> None:
    with running_daemon(db.dsn) as daemon:
        stopping = await enqueue(sql, "probe.stops_loop")
        daemon.wait_for("exit.refused", error="loop.stop()")
        daemon.wait_for("job.finished", job_id=stopping)
        daemon.send(signal.SIGTERM)
        assert daemon.exit_code() == 0


async def test_a_handler_that_poisons_its_worker_costs_no_worker(db: ClonedDatabase, sql: Connection) -> None:
    jobs = [await enqueue(sql, "probe.poison") for _ in range(5)]
    with running_daemon(db.dsn, settings={"worker.concurrency": "2"}) as daemon:
        for job_id in jobs:
            daemon.wait_for("job.finished", job_id=job_id)
        after = [await enqueue(sql, "probe.ok") for _ in range(5)]
        for job_id in after:
            daemon.wait_for("job.finished", job_id=job_id)
        daemon.send(signal.SIGTERM)
        assert daemon.exit_code() == 0


async def test_metrics_say_what_happens_and_what_waits(db: ClonedDatabase, sql: Connection) -> None:
    await sql.execute("select wakeful.pause('held')")
    await sql.execute("select wakeful.enqueue('probe.ok', queue => 'held')")
    job_id = await enqueue(sql, "probe.ok")
    with running_daemon(db.dsn) as daemon:
        daemon.wait_for("job.finished", job_id=job_id)
        daemon.wait_for("listener.connected")

        async def shown() -> str:
            return get(daemon, "/metrics")[1]

        text = await eventually(
            shown, until=lambda text: 'wakeful_queue_oldest_ready_seconds{queue="held"}' in text
        )
        assert (
            'wakeful_jobs_finished_total{queue="default",job_type="probe.ok",outcome="succeeded"} 1' in text
        )
        for name in (
            "wakeful_listen_connected 1",
            "wakeful_database_connected 1",
            "wakeful_worker_slots 10",
        ):
            assert name in text
