"""Clocks that differ and clocks that are set: due times and leases are the database's, waits are nobody's (F29, I1)."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from support.clocks import FakeClock, binaries_with
from support.cluster import Cluster, make_template, running_cluster
from support.databases import ClonedDatabase, Connection, cloned_database
from support.eventually import eventually
from support.fleets import LEASE, REAP, STALL, WATCH, Fleet, enqueue, reached, running_fleet
from support.ledger import at_of
from support.scratch import scratch_folder

HOUR, TEN_MINUTES = 3600.0, 600.0


async def due_soon(sql: Connection, count: int) -> list[str]:
    options = "run_after => clock_timestamp() + interval '1 second'"
    return [await enqueue(sql, "probe.ok", options=options) for _ in range(count)]


async def assert_all_in_time(sql: Connection, jobs: list[str]) -> None:
    for job_id in jobs:
        await reached(sql, job_id, "DONE")
    late = await sql.fetch(
        "select extract(epoch from started_at - run_after)::float as late"
        " from wakeful.jobs where job_id = any($1::uuid[])",
        jobs,
    )
    assert all(0 <= row["late"] <= 1 + STALL for row in late), late


@pytest.mark.case("F29")
async def test_the_clocks_of_the_daemons_are_asked_for_nothing(
    db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    ahead, behind = FakeClock(tmp_path, "ahead", TEN_MINUTES), FakeClock(tmp_path, "behind", -TEN_MINUTES)
    with running_fleet(db.dsn, tmp_path) as fleet:
        fleet.start("true", worker_concurrency=3)
        fleet.start("ahead", around=ahead.around, worker_concurrency=3)
        fleet.start("behind", around=behind.around, worker_concurrency=3)
        said = {
            str(daemon.events("daemon.started")[0]["timestamp"])[:16] for daemon in fleet.daemons.values()
        }
        assert len(said) == 3, "their clocks do differ"
        long = [await enqueue(sql, "probe.sleep", seconds=2.5 * LEASE) for _ in range(6)]
        await fleet.noted("START", count=6)
        await assert_all_in_time(sql, await due_soon(sql, 12))
        for offset in (-HOUR, HOUR):
            ahead.set(offset)  # in mid-flight: by more than an hour, in both directions
            await assert_all_in_time(sql, await due_soon(sql, 12))
        for job_id in long:
            row = await reached(sql, job_id, "DONE")
            assert (row["run_no"], row["lost"]) == (1, 0)
        await assert_nobody_was_deposed(fleet)
        assert fleet.ledger.unexplained(lease=LEASE) == []
        assert [fleet.stop(tag) for tag in fleet.daemons] == [0, 0, 0]


async def assert_nobody_was_deposed(fleet: Fleet) -> None:
    for daemon in fleet.daemons.values():
        assert not daemon.events("instance.deposed")
        assert not daemon.events("jobs.rescued")


@pytest.mark.case("F29", "I1")
async def test_a_step_of_the_servers_clock_takes_no_job_from_the_living_and_keeps_none_for_the_dead(
    cluster: Cluster, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        folder = stack.enter_context(scratch_folder())
        clock = FakeClock(folder, "server")
        binaries = binaries_with(clock, cluster.binaries, folder / "bin")
        own = stack.enter_context(running_cluster(folder / "data", binaries=binaries))
        await make_template(own)
        async with cloned_database(own) as db:
            sql = await db.connect()
            with running_fleet(db.dsn, tmp_path) as fleet:
                fleet.start("first", worker_queues="default")
                fleet.start("second", worker_concurrency=40)
                jobs = [await enqueue(sql, "probe.once_long", seconds=2 * LEASE) for _ in range(4)]
                await fleet.noted("START", count=4)
                before = await sql.fetchval("select extract(epoch from clock_timestamp())::float")
                clock.set(HOUR)
                assert (
                    await sql.fetchval("select extract(epoch from clock_timestamp())::float")
                    > before + HOUR - 1
                )
                for job_id in jobs:
                    row = await reached(sql, job_id, "DONE")
                    assert (row["run_no"], row["lost"]) == (1, 0)
                await assert_nobody_was_deposed(fleet)

                stuck: list[str] = []
                while not {line["job_id"] for line in fleet.ledger.lines("START", tag="first")} & set(stuck):
                    stuck.append(await enqueue(sql, "probe.once_long", seconds=600))
                    await fleet.noted("START", count=4 + len(stuck))
                clock.set(-HOUR)  # two hours back, and then an owner dies
                fleet.kill("first")

                async def taken() -> bool:
                    return bool(fleet.daemons["second"].events("jobs.rescued"))

                await eventually(taken, timeout=LEASE + REAP + 2 * WATCH + 2 * STALL)
                left = {str(line["job_id"]) for line in fleet.ledger.lines("START", tag="first")} & set(stuck)
                for job_id in left:
                    row = await reached(sql, job_id, "DONE")
                    assert row["lost"] == 1
                    (start,) = fleet.ledger.lines("START", tag="second", job_id=job_id)
                    assert at_of(start) - fleet.killed_at("first") <= LEASE + REAP + 2 * WATCH + STALL
                assert fleet.ledger.unexplained(lease=LEASE) == []
