"""A daemon on a host whose cable is pulled: half-open connections on both sides, and nobody is told (I1, F09, F20)."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cluster import Cluster
from support.databases import ClonedDatabase, Connection
from support.fleets import LEASE, REAP, STALL, WATCH, enqueue, reached, row_of, running_fleet
from support.ledger import at_of
from support.networks import running_network

BACK_SECONDS = 10.0


@pytest.mark.case("F20", "I1", "I5")
async def test_a_daemon_that_is_cut_off_stops_its_jobs_before_another_starts_them_and_comes_back_by_itself(
    cluster: Cluster, db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    with running_network(cluster.socket) as network, running_fleet(db.dsn, tmp_path) as fleet:
        cut = fleet.start(
            "cut", dsn=network.dsn(db.name), around=network.around, database_connect_timeout="1s"
        )
        jobs = [await enqueue(sql, "probe.once_long", seconds=600) for _ in range(4)]
        await fleet.noted("START", count=4, tag="cut")
        fleet.start("near")

        fleet.ledger.note("CUT", tag="cut")
        network.pull()
        (began,) = (at_of(line) for line in fleet.ledger.lines("CUT"))
        for job_id in jobs:
            row = await reached(sql, job_id, "DONE")
            assert (row["lost"], row["attempts"], row["run_no"]) == (1, 1, 2)
            (start,) = fleet.ledger.lines("START", tag="near", job_id=job_id)
            assert at_of(start) - began <= LEASE + REAP + WATCH + STALL
        assert fleet.ledger.overlaps(lease=LEASE) == [], "it let go of them at 80 % of its lease"

        network.plug()
        fleet.ledger.note("HEALED", tag="cut")
        cut.wait_for("instance.registered", count=2, timeout=BACK_SECONDS + STALL)
        assert fleet.stop("near") == 0
        later = await enqueue(sql, "probe.ok")
        assert (await reached(sql, later, "DONE", timeout=BACK_SECONDS + STALL))["run_no"] == 1
        assert fleet.stop("cut") == 0


@pytest.mark.case("F28", "I1")
async def test_a_short_cut_costs_nothing_at_all(
    cluster: Cluster, db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    with running_network(cluster.socket) as network, running_fleet(db.dsn, tmp_path) as fleet:
        fleet.start("near", worker_queues="none")  # it only looks after the others
        cut = fleet.start(
            "cut",
            dsn=network.dsn(db.name),
            around=network.around,
            lease_default="20s",
            lease_long="20s",
            database_connect_timeout="1s",
        )
        jobs = [await enqueue(sql, "probe.sleep", seconds=3) for _ in range(4)]
        await fleet.noted("START", count=4)
        network.pull()
        await fleet.noted("END", count=4)  # with the cable out
        network.plug()
        for job_id in jobs:
            await reached(sql, job_id, "DONE")
            row = await row_of(sql, job_id)
            assert (row["run_no"], row["attempts"], row["lost"]) == (1, 1, 0)
        assert not cut.events("instance.deposed")
        assert fleet.stop("cut") == 0
