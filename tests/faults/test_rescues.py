"""Jobs of daemons that are gone: taken back in time, by whoever is there, however the owner went (F20, F25, F46)."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import anyio
import pytest

from support.databases import ClonedDatabase, Connection
from support.eventually import eventually
from support.fleets import LEASE, REAP, STALL, WATCH, enqueue, reached, row_of, running_fleet
from support.forms import LONG, some, times
from support.ledger import at_of

WAYS = ("killed", "killed in its drain", "killed while it hands back")


@pytest.mark.case("F20", "F46")
@pytest.mark.parametrize("way", some(WAYS, "killed in its drain"))
async def test_its_jobs_run_elsewhere_within_their_lease_and_a_look(
    db: ClonedDatabase, sql: Connection, tmp_path: Path, way: str
) -> None:
    with running_fleet(db.dsn, tmp_path) as fleet:
        grace = "100ms" if way == "killed while it hands back" else "30s"
        first = fleet.start("first", drain_grace=grace, drain_interrupt="30s")
        probes = ["probe.once_long"] * 3 + ["probe.deaf_once" if way != "killed" else "probe.once_long"]
        jobs = [await enqueue(sql, probe, seconds=600) for probe in probes]
        await fleet.noted("START", count=4)
        fleet.start("second")
        if way != "killed":
            first.send(signal.SIGTERM)
            first.wait_for("phase.entered", phase="drain" if way == "killed in its drain" else "interrupt")
        fleet.kill("first")

        left = [job_id for job_id in jobs if (await row_of(sql, job_id))["status"] == "RUNNING"]
        for job_id in jobs:
            row = await reached(sql, job_id, "DONE")
            assert row["attempts"] == 1
            assert row["lost"] == (1 if job_id in left else 0)
            (start,) = fleet.ledger.lines("START", tag="second", job_id=job_id)
            assert at_of(start) - fleet.killed_at("first") <= LEASE + REAP + WATCH + STALL
        assert fleet.ledger.unexplained(lease=LEASE) == []


@pytest.mark.case("F20")
@pytest.mark.timeout(3000 if LONG else 120)
async def test_a_daemon_killed_again_and_again_at_any_moment_loses_no_job(
    db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # shown when it fails
    chance, rounds = random.Random(seed), times(5, 200)
    with running_fleet(db.dsn, tmp_path) as fleet:
        for number in range(rounds):
            kinds = ("probe.ok", "probe.sleep", "probe.thread", "probe.steps")
            for _ in range(20):
                kind = chance.choice(kinds)
                await enqueue(sql, kind, options="max_attempts => 3", seconds=chance.uniform(0, 0.2), steps=3)
            fleet.start(str(number))
            # Between claim and start, in the handler, between its end and the write, while it writes: wherever it is.
            await fleet.noted("START", count=1, tag=str(number))
            await anyio.sleep(chance.uniform(0, 0.3))
            fleet.kill(str(number))
        fleet.start("last")
        # One that lost its owner three times is dead for that, and nothing else may end but by its handler.
        query = "select count(*) from wakeful.jobs where status = 'DONE' or (status = 'DEAD' and lost = 3)"

        async def ended() -> int:
            return int(await sql.fetchval(query))

        await eventually(ended, until=lambda count: count == 20 * rounds, timeout=90)
        assert fleet.stop("last") == 0
        assert fleet.ledger.unexplained(lease=LEASE) == []
        assert await sql.fetchval("select max(attempts) from wakeful.jobs") == 1


@pytest.mark.case("F25", "I11")
async def test_whoever_took_jobs_back_last_may_die_too_and_a_job_that_outlives_them_all_is_done(
    db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    with running_fleet(db.dsn, tmp_path) as fleet:
        fleet.start("first")
        job_id = await enqueue(sql, "probe.long_until", seconds=600, run=3)
        await fleet.noted("START", tag="first")
        fleet.start("second")
        fleet.kill("first")
        await fleet.noted("START", tag="second")
        fleet.daemons["second"].wait_for("jobs.rescued")
        fleet.kill("second")
        fleet.start("third")  # alone, and only just there: it needs a watch of its own
        row = await reached(sql, job_id, "DONE")
        assert (row["attempts"], row["lost"], row["run_no"]) == (1, 2, 3)
        (start,) = fleet.ledger.lines("START", tag="third")
        began = max(fleet.killed_at("second"), float(str(start["at"])) - LEASE - REAP - WATCH - STALL)
        assert at_of(start) - began <= LEASE + REAP + 2 * WATCH + STALL


@pytest.mark.case("F25", "I5")
async def test_without_a_single_row_of_an_instance_all_goes_on(
    db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    with running_fleet(db.dsn, tmp_path) as fleet:
        for tag in ("first", "second"):
            fleet.start(tag)
        jobs = [await enqueue(sql, "probe.sleep", seconds=0.3) for _ in range(30)]
        await fleet.noted("START", count=10)
        for _ in range(3):
            await sql.execute("delete from wakeful.instance")
            later = [await enqueue(sql, "probe.sleep", seconds=0.3) for _ in range(10)]
            for job_id in later:
                await fleet.noted("START", job_id=job_id)
            jobs += later
        for job_id in jobs:
            await reached(sql, job_id, "DONE")
        for daemon in fleet.daemons.values():
            daemon.wait_for("instance.deposed")
            daemon.wait_for("instance.registered", count=2)
        assert await sql.fetchval("select max(attempts) from wakeful.jobs") == 1


@pytest.mark.case("F25")
async def test_the_only_daemon_takes_a_great_many_back_in_batches_and_claims_meanwhile(
    db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    count = times(2_000, 100_000)
    await sql.execute(
        "select count(e) from generate_series(1, $1) n, wakeful.enqueue('probe.ok', subject => n::text) e",
        count,
    )
    await sql.execute(
        "with dead as (insert into wakeful.instance (incarnation, name, host, pid, version, lease, beat_at)"
        "  values (1, 'dead', 'elsewhere', 1, '0', '3 seconds', now() - interval '1 hour') returning instance_id)"
        " update wakeful.ready set owner = dead.instance_id, claim = 4711, attempts = 1, run_no = 1,"
        "  started_at = now() - interval '1 hour' from dead"
    )
    with running_fleet(db.dsn, tmp_path) as fleet:
        daemon = fleet.start("only", worker_concurrency=50)
        canary = await enqueue(sql, "probe.steps", steps=1)
        daemon.wait_for("job.finished", job_id=canary)
        owned = await sql.fetchval("select count(*) from wakeful.ready where claim = 4711")
        query = (
            "select count(*) from wakeful.jobs where job_type = 'probe.ok' and status = 'DONE' and lost = 1"
        )

        async def done() -> int:
            return int(await sql.fetchval(query))

        await eventually(done, until=lambda found: found == count, timeout=100)
        assert owned > 0, "the canary ran while they were being taken back"
        assert sum(int(str(line["jobs"])) for line in daemon.events("jobs.rescued")) == count
