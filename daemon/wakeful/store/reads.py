"""What people look at: jobs, their logs, queues; and what they do by hand, one job or queue at a time.

Invariant: reading goes through the view `wakeful.jobs`, which hides the secret parts of payloads; changing goes through
the public functions, which keep the audit. JSON stays text, so that its numbers stay exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from wakeful.store.database import Database

# A row as its statement gives it; JSON columns are text.
JobRow = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs; what is left out, or empty, filters nothing. Ages are in seconds since the enqueue."""

    statuses: tuple[str, ...] = ()
    job_types: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    subject: str | None = None
    older_than: float | None = None
    newer_than: float | None = None

    def is_empty(self) -> bool:
        """Whether it lets every job through."""
        return self == JobFilter()

    def arguments(self) -> tuple[object, ...]:
        """The filter as the first six arguments of its statements."""
        return (
            self.statuses or None,
            self.job_types or None,
            self.queues or None,
            self.subject,
            self.older_than,
            self.newer_than,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """One queue and what lies in it; `oldest` is how long its oldest waiting job has been due, in seconds."""

    queue: str
    paused_at: datetime | None
    paused_by: str | None
    reason: str | None
    waiting: int
    running: int
    scheduled: int
    dead: int
    oldest: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceSeen:
    """One instance and what it serves. `lease_left` in seconds; below 0 it has not proved that it is alive."""

    name: str
    host: str
    pid: int
    state: str
    queues: tuple[str, ...]
    every_type: bool
    job_types: tuple[str, ...]
    lease_left: float


async def list_jobs(
    database: Database, wanted: JobFilter, *, limit: int, after: UUID | None = None
) -> list[JobRow]:
    """One page of jobs, the newest first; the next one begins after the last id of this."""
    return [dict(row) for row in await database.fetch("list_jobs", *wanted.arguments(), after, limit)]


async def find_job_ids(
    database: Database, wanted: JobFilter, *, limit: int, after: UUID | None = None
) -> list[UUID]:
    """One page of job ids, the oldest first."""
    rows = await database.fetch("find_job_ids", *wanted.arguments(), after, limit)
    return [row["job_id"] for row in rows]


async def show_job(database: Database, job_id: UUID) -> JobRow | None:
    """Everything about one job; None where no table holds it."""
    row = await database.fetchrow("show_job", job_id)
    return None if row is None else dict(row)


async def read_job_log(database: Database, job_id: UUID) -> list[JobRow]:
    """The log lines of all its runs."""
    return [dict(row) for row in await database.fetch("read_job_log", job_id)]


async def watch_jobs(database: Database, job_ids: Sequence[UUID]) -> list[JobRow]:
    """Where these jobs are now; those that no table holds are missing."""
    return [dict(row) for row in await database.fetch("watch_jobs", job_ids)]


async def find_running(database: Database, *, limit: int) -> list[UUID]:
    """The jobs that run now, the longest running first."""
    return [row["job_id"] for row in await database.fetch("find_running", limit)]


async def cancel_job(database: Database, job_id: UUID, reason: str | None) -> str:
    """Cancel; gives its status afterwards (RUNNING: asked for). Raises OptionRefused for an unknown id."""
    return str(await database.fetchval("cancel_job", job_id, reason))


async def requeue_job(database: Database, job_id: UUID) -> bool:
    """Run it again; False where it is neither DEAD nor CANCELLED. Raises OptionRefused for an unknown id."""
    return await database.fetchval("requeue_job", job_id) is not None


async def list_queues(database: Database) -> list[QueueState]:
    """Every known queue."""
    rows = await database.fetch("list_queues")
    return [
        QueueState(
            queue=row["queue"],
            paused_at=row["paused_at"],
            paused_by=row["paused_by"],
            reason=row["reason"],
            waiting=row["waiting"],
            running=row["running"],
            scheduled=row["scheduled"],
            dead=row["dead"],
            oldest=row["oldest_s"],
        )
        for row in rows
    ]


async def list_instances(database: Database) -> list[InstanceSeen]:
    """Every instance that has a row."""
    return [
        InstanceSeen(
            name=row["name"],
            host=row["host"],
            pid=row["pid"],
            state=row["state"],
            queues=tuple(row["queues"]),
            every_type=row["every_type"],
            job_types=tuple(row["job_types"]),
            lease_left=row["lease_left_s"],
        )
        for row in await database.fetch("list_instances")
    ]


async def has_jobs_elsewhere(database: Database, queue: str) -> bool:
    """Whether there is any job, waiting, running or ended, in another queue than this."""
    return bool(await database.fetchval("has_jobs_elsewhere", queue))


async def has_met_queue(database: Database, queue: str) -> bool:
    """Has a job been in this queue lately?"""
    return bool(await database.fetchval("has_met_queue", queue))


async def pause_queue(database: Database, queue: str, reason: str | None) -> bool:
    """Claim nothing more from it; False where it was paused already. Raises OptionRefused."""
    return bool(await database.fetchval("pause_queue", queue, reason))


async def resume_queue(database: Database, queue: str) -> bool:
    """Open it again; False where it was not paused."""
    return bool(await database.fetchval("resume_queue", queue))


async def time_after(database: Database, seconds: float) -> datetime:
    """The time so long from now, by the database's clock."""
    at = await database.fetchval("time_after", seconds)
    assert isinstance(at, datetime)
    return at
