"""Reads how the demo's jobs are, from the view that everybody else reads: new ones by their ids, open ones one by one.

Invariant: a job is told of from its enqueue to its end, whoever enqueued it; looking costs a few look-ups by primary
key, however many jobs have ended before. Ids begin with their time, so new jobs have later ids than old ones, but for
the moment between an id and its commit: each look begins a little before the newest id that was seen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from wakeful.cli.demo.story import STAGES, JobSeen, Pipeline, Snapshot, job_seen, moved, snapshot_of
from wakeful.store import reads
from wakeful.store.database import Database
from wakeful.store.reads import JobFilter
from wakeful.store.upkeep import NIL

_LATE_COMMIT_SECONDS: Final = 10.0
_PAGE: Final = 500
_KIN: Final = 200


@dataclass(slots=True)
class Watch:
    """What is known of the jobs in some queues (none named: all)."""

    queues: tuple[str, ...] = ()
    latest: Snapshot = field(default_factory=Snapshot)
    _jobs: dict[UUID, JobSeen] = field(default_factory=dict)
    _seen: set[UUID] = field(default_factory=set)
    _newest: UUID = NIL

    async def begin(self, database: Database) -> Snapshot:
        """Take up what an earlier run has left open, and leave alone what has ended. Raises StoreUnavailable."""
        everything = JobFilter(queues=self.queues)
        for row in await reads.list_jobs(database, everything, limit=1):
            self._newest = row["job_id"]
        start = _a_little_before(self._newest)
        self._seen |= set(await reads.find_job_ids(database, everything, limit=_PAGE, after=start))
        left = JobFilter(queues=self.queues, statuses=("PENDING", "RUNNING"))
        for row in await reads.list_jobs(database, left, limit=_PAGE):
            await self._add(database, row["job_id"])
        self.latest = snapshot_of(self._jobs)
        return self.latest

    async def look(self, database: Database) -> Snapshot:
        """Look again. Raises StoreUnavailable."""
        await self._find_new(database)
        await self._follow(database)
        self.latest = snapshot_of(self._jobs)
        return self.latest

    def forget(self, pipelines: Iterable[Pipeline], others: Iterable[JobSeen]) -> None:
        """Watch these no longer: they have ended, and that was told."""
        gone = {job.job_id for one in pipelines for job in one.jobs} | {job.job_id for job in others}
        for job_id in gone & self._jobs.keys():
            del self._jobs[job_id]
        self.latest = snapshot_of(self._jobs)

    async def _find_new(self, database: Database) -> None:
        start = _a_little_before(self._newest)
        self._seen = {job_id for job_id in self._seen if job_id > start}
        wanted = JobFilter(queues=self.queues)
        for job_id in await reads.find_job_ids(database, wanted, limit=_PAGE, after=start):
            if job_id not in self._seen:
                await self._add(database, job_id)
            self._newest = max(self._newest, job_id)

    async def _follow(self, database: Database) -> None:
        watched = [job.job_id for job in self._jobs.values() if not job.ended]
        for row in await reads.watch_jobs(database, watched):
            self._jobs[row["job_id"]] = moved(self._jobs[row["job_id"]], row)
        for job_id in watched:
            if self._jobs[job_id].ended:
                await self._read(database, job_id)

    async def _add(self, database: Database, job_id: UUID) -> None:
        job = await self._read(database, job_id)
        if job is None or job.run is None or job.job_type == STAGES[0] or self._knows_run(job):
            return
        # It was begun before we looked, or somebody requeued one of its jobs: the stages before it are part of it.
        kin = JobFilter(queues=self.queues, subject=job.subject, job_types=STAGES)
        for row in await reads.list_jobs(database, kin, limit=_KIN):
            if _is_of(row["job_id"], row["dedupe_key"], job.run):
                await self._read(database, row["job_id"])

    async def _read(self, database: Database, job_id: UUID) -> JobSeen | None:
        row = await reads.show_job(database, job_id)
        self._seen.add(job_id)
        if row is None:
            self._jobs.pop(job_id, None)  # it has ended, and is not kept
            return None
        self._jobs[job_id] = job_seen(row)
        return self._jobs[job_id]

    def _knows_run(self, job: JobSeen) -> bool:
        return any(one.run == job.run and one.job_id != job.job_id for one in self._jobs.values())


def has_ended(snapshot: Snapshot, runs: Collection[str]) -> bool:
    """Whether none of these runs is open."""
    return not any(one.run in runs for one in snapshot.open_pipelines)


def _is_of(job_id: UUID, dedupe_key: str | None, run: str) -> bool:
    return str(job_id) == run or (dedupe_key is not None and dedupe_key.endswith(f":{run}"))


def _a_little_before(job_id: UUID) -> UUID:
    """The lowest id of the moment so many seconds before that of a UUIDv7."""
    milliseconds = max(0, (job_id.int >> 80) - int(_LATE_COMMIT_SECONDS * 1000))
    return UUID(int=milliseconds << 80)
