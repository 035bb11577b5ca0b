"""What a measurement found, as a table for people or a document for programs, with a hint at what limits it.

Invariant: each value names its unit; a hint says which of the figures it goes by.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from wakeful.cli.terminal import table

SLOW_COMMIT_MS: Final = 5.0
FAR_MS: Final = 1.0
BUSY_SHARE: Final = 0.7
_HEADINGS: Final = ("WHAT", "FIGURE", "HOW")


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes:
    """What the server answers with, before any job: medians in milliseconds. `near`: it is on this machine."""

    version: str
    near: bool
    round_trip_ms: float
    commit_ms: float
    hurried_commit_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """One measurement: `seconds` are of the wall's clock, `cpu_seconds` of this process's processor time."""

    probes: Probes
    jobs: int
    enqueue_seconds: float
    drained: int
    drain_seconds: float
    cpu_seconds: float
    wakes_ms: Sequence[float]
    enqueue_wal_bytes: int
    drain_wal_bytes: int
    concurrency: int

    @property
    def drain_rate(self) -> float:
        """Jobs a second from the opening of the queue to the last result."""
        return self.drained / self.drain_seconds

    @property
    def wal_bytes_a_job(self) -> float:
        """WAL of the whole life of a job, with what others wrote at the same time."""
        return self.enqueue_wal_bytes / self.jobs + self.drain_wal_bytes / self.drained


def document(found: Findings) -> dict[str, object]:
    """The figures under names that programs can rely on."""
    middle, slow = _wake_parts(found)
    return {
        "server_version": found.probes.version,
        "round_trip_ms": round(found.probes.round_trip_ms, 3),
        "commit_ms": round(found.probes.commit_ms, 3),
        "async_commit_ms": round(found.probes.hurried_commit_ms, 3),
        "jobs": found.jobs,
        "jobs_drained": found.drained,
        "enqueue_per_second": round(found.jobs / found.enqueue_seconds, 1),
        "drain_per_second": round(found.drain_rate, 1),
        "daemon_cpu_us_per_job": round(found.cpu_seconds / found.drained * 1e6, 1),
        "wake_p50_ms": round(middle, 2),
        "wake_p99_ms": round(slow, 2),
        "wal_bytes_per_job": round(found.wal_bytes_a_job),
        "concurrency": found.concurrency,
        "limit": limit_of(found),
    }


def lines(found: Findings) -> list[str]:
    """The figures for people."""
    middle, slow = _wake_parts(found)
    probes, jobs = found.probes, found.jobs
    rows = [
        ("server", f"PostgreSQL {probes.version}", ""),
        ("round trip", f"{probes.round_trip_ms:.2f} ms", "median of an empty statement"),
        (
            "commit",
            f"{probes.commit_ms:.2f} ms",
            f"median; {probes.hurried_commit_ms:.2f} ms without waiting for the disk",
        ),
        ("enqueue", f"{jobs / found.enqueue_seconds:,.0f} jobs/s", f"{jobs:,} by enqueue_many, 1,000 a call"),
        (
            "drain",
            f"{found.drain_rate:,.0f} jobs/s",
            f"no-op jobs, one instance, concurrency {found.concurrency}",
        ),
        (
            "daemon CPU",
            f"{found.cpu_seconds / found.drained * 1e6:,.0f} µs a job",
            "of this process, while it drained",
        ),
        ("wake", f"{middle:.1f} ms", f"p50, committed to started; p99 {slow:.1f} ms"),
        ("WAL", f"{found.wal_bytes_a_job:,.0f} B a job", "all that the server wrote meanwhile, others' too"),
    ]
    return [*table(_HEADINGS, rows, width=None), "", limit_of(found)]


def limit_of(found: Findings) -> str:
    """What limits this server's rate, by the figures, and what would help."""
    probes, share = found.probes, found.cpu_seconds / found.drain_seconds
    if probes.round_trip_ms >= FAR_MS and probes.near:
        return (
            f"What else runs here limits: a statement takes {probes.round_trip_ms:.1f} ms, and the server is on "
            "this machine. The machine or the server is busy."
        )
    if probes.round_trip_ms >= FAR_MS:
        return (
            f"The way to the server limits: each statement is {probes.round_trip_ms:.1f} ms under way. "
            "Run daemons nearer to it."
        )
    if share >= BUSY_SHARE:
        return (
            f"The daemon's processor limits the drain: it was busy {share:.0%} of the time. "
            "Where the server has cores to spare, a second instance adds to the rate."
        )
    if probes.commit_ms - probes.hurried_commit_ms >= SLOW_COMMIT_MS:
        return (
            f"The disk limits: a commit waits {probes.commit_ms:.1f} ms for it. "
            "Producers that enqueue in bulk, or share their transactions, feel it least."
        )
    return f"The server limits: the daemon's processor was busy {share:.0%} of the time, and waited for answers else."


def _wake_parts(found: Findings) -> tuple[float, float]:
    cuts = statistics.quantiles(found.wakes_ms, n=100, method="inclusive")
    return cuts[49], cuts[98]
