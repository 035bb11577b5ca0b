"""What `wakeful bench` says that limits a server: the nearest cause that the figures show."""

from __future__ import annotations

import pytest

from wakeful.cli.bench.report import Findings, Probes, document, limit_of, lines


def found(*, round_trip: float = 0.1, commit: float = 1.0, cpu: float = 0.2, near: bool = False) -> Findings:
    """A second's drain of a thousand jobs."""
    probes = Probes(
        version="18.6", near=near, round_trip_ms=round_trip, commit_ms=commit, hurried_commit_ms=0.1
    )
    return Findings(
        probes=probes,
        jobs=1000,
        enqueue_seconds=0.5,
        drained=1000,
        drain_seconds=1.0,
        cpu_seconds=cpu,
        wakes_ms=[1.0, 2.0, 3.0],
        enqueue_wal_bytes=400_000,
        drain_wal_bytes=600_000,
        concurrency=10,
    )


@pytest.mark.parametrize(
    ("findings", "named"),
    [
        (found(round_trip=2.0, commit=20.0, cpu=0.9), "The way to the server limits"),
        (found(round_trip=2.0, commit=20.0, cpu=0.9, near=True), "What else runs here limits"),
        (found(commit=20.0, cpu=0.9, near=True), "The daemon's processor limits"),
        (found(commit=20.0), "The disk limits"),
        (found(), "The server limits"),
    ],
)
def test_the_limit_that_is_named_is_the_nearest_one(findings: Findings, named: str) -> None:
    assert limit_of(findings).startswith(named)
    assert lines(findings)[-1] == limit_of(findings)


def test_rates_and_costs_are_those_of_the_stages_that_they_name() -> None:
    told = document(found())
    assert told["enqueue_per_second"] == 2000.0
    assert told["drain_per_second"] == 1000.0
    assert told["daemon_cpu_us_per_job"] == 200.0
    assert told["wal_bytes_per_job"] == 1000
    assert told["wake_p50_ms"] == 2.0


def test_nobody_is_told_to_come_nearer_to_a_server_on_the_same_machine() -> None:
    assert "nearer" in limit_of(found(round_trip=2.0))
    told = limit_of(found(round_trip=2.0, near=True))
    assert "nearer" not in told
    assert told.endswith("The machine or the server is busy.")
