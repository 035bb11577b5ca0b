"""What the demo has seen: jobs with their steps, and the pipelines that they make. Values only, from rows of the view.

Invariant: a pipeline is the jobs of one run in the order of its stages, whatever other jobs there are; what rows hold
is taken as it is, also where nobody expected it. Reading the rows is `watching`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from wakeful.cli.commands.jobs.documents import decoded, steps_of
from wakeful.store.reads import JobRow

STAGES: Final = ("COLLECT", "VISION", "COPY", "BUILD", "PUBLISH")
UNHANDLED: Final = "AI_CHECK"
ENDED: Final = frozenset({"DONE", "DEAD", "CANCELLED"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of a job's present run; `seconds` is how long it took, once it has ended."""

    name: str
    status: str
    percent: float | None = None
    message: str = ""
    seconds: float | None = None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSeen:
    """A job as it was at the last look.

    `run` names its pipeline, `due` is when it runs next, `reason` the first line of its last error.
    """

    job_id: UUID
    job_type: str
    status: str
    subject: str
    run: str | None = None
    attempt: int = 0
    max_attempts: int = 1
    run_no: int = 0
    steps: tuple[Step, ...] = ()
    reason: str = ""
    due: datetime | None = None
    result: Mapping[str, Any] | None = None
    degraded: tuple[str, ...] = ()
    created_at: datetime
    finished_at: datetime | None = None

    @property
    def ended(self) -> bool:
        """Whether it has come to its end."""
        return self.status in ENDED

    @property
    def why(self) -> str:
        """Why its last run did not bring it to its end: its last error, or that of the step that it waits in."""
        failed = next((step.error for step in self.steps if step.status == "failed"), "")
        return self.reason if self.ended else failed or self.reason

    @property
    def runs_again(self) -> bool:
        """Whether it has run, and waits for its next run."""
        return self.status == "PENDING" and self.run_no > 0

    def seconds(self, now: datetime) -> float:
        """From its enqueue to its end, or until now."""
        return max(0.0, ((self.finished_at or now) - self.created_at).total_seconds())


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The jobs of one run of one place, in the order of the stages; at least one."""

    run: str
    jobs: tuple[JobSeen, ...]

    @property
    def place(self) -> str:
        """Which place it is about."""
        return self.jobs[0].subject

    @property
    def latest(self) -> JobSeen:
        """The job that it has come to."""
        return self.jobs[-1]

    @property
    def ended(self) -> bool:
        """Whether nothing more comes: published, or a job of it died or was cancelled."""
        latest = self.latest
        return latest.ended and (latest.status != "DONE" or latest.job_type == STAGES[-1])

    @property
    def published(self) -> bool:
        """Whether it has come to its good end."""
        return self.ended and self.latest.status == "DONE"

    def job(self, job_type: str) -> JobSeen | None:
        """The job of one stage, None where it is not there (yet)."""
        return next((job for job in self.jobs if job.job_type == job_type), None)

    def seconds(self, now: datetime) -> float:
        """From its first enqueue to its end, or until now."""
        end = (self.latest.finished_at if self.ended else None) or now
        return max(0.0, (end - self.jobs[0].created_at).total_seconds())


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All that is watched at one moment: pipelines, the oldest first, and jobs that belong to none."""

    pipelines: tuple[Pipeline, ...] = ()
    others: tuple[JobSeen, ...] = ()

    @property
    def open_pipelines(self) -> tuple[Pipeline, ...]:
        """Those that go on."""
        return tuple(one for one in self.pipelines if not one.ended)

    @property
    def open_others(self) -> tuple[JobSeen, ...]:
        """Those that have not ended."""
        return tuple(job for job in self.others if not job.ended)

    @property
    def jobs(self) -> tuple[JobSeen, ...]:
        """Every job."""
        return tuple(job for one in self.pipelines for job in one.jobs) + self.others


@dataclass(slots=True, kw_only=True)
class Tally:
    """What has come to an end so far. `died` names the pipelines that should not have.

    `cancelled` ones count as neither: a run gives way where a newer one of its place is published already.
    """

    published: int = 0
    cancelled: int = 0
    died: list[str] = field(default_factory=list)

    def count(self, ended: Pipeline) -> None:
        """Count one that has come to its end."""
        if ended.published:
            self.published += 1
        elif ended.latest.status == "CANCELLED":
            self.cancelled += 1
        else:
            self.died.append(ended.place)


def snapshot_of(jobs: Mapping[UUID, JobSeen]) -> Snapshot:
    """Put jobs together to pipelines."""
    runs: dict[str, list[JobSeen]] = {}
    others: list[JobSeen] = []
    for job in sorted(jobs.values(), key=lambda job: job.job_id):
        if job.run is None:
            others.append(job)
        else:
            runs.setdefault(job.run, []).append(job)
    pipelines = tuple(Pipeline(run=run, jobs=_in_order(found)) for run, found in runs.items())
    return Snapshot(pipelines=pipelines, others=tuple(others))


def job_seen(row: JobRow) -> JobSeen:
    """Give a job from a row with everything about it."""
    result = decoded(row["result"])
    job = JobSeen(
        job_id=row["job_id"],
        job_type=row["job_type"],
        status=row["status"],
        subject=row["subject"] or "",
        run=_run_of(row),
        result=result if isinstance(result, dict) else None,
        degraded=tuple(row["degraded"]),
        created_at=row["created_at"],
        finished_at=row["finished_at"],
    )
    return moved(job, row)


def moved(job: JobSeen, row: JobRow) -> JobSeen:
    """Give a job as a row of a later look has it."""
    return replace(
        job,
        status=row["status"],
        attempt=row["attempts"],
        max_attempts=row["max_attempts"],
        run_no=row["run_no"],
        steps=tuple(_step(step) for step in steps_of(row["progress"])),
        reason=_first_line(row["last_error"]),
        due=row["run_after"],
    )


def _in_order(jobs: list[JobSeen]) -> tuple[JobSeen, ...]:
    return tuple(sorted(jobs, key=lambda job: STAGES.index(job.job_type)))


def _run_of(row: JobRow) -> str | None:
    if row["job_type"] not in STAGES:
        return None
    if row["job_type"] == STAGES[0]:
        return str(row["job_id"])
    payload = decoded(row["payload"])
    run = payload.get("run") if isinstance(payload, dict) else None
    return run if isinstance(run, str) else None


def _step(step: Mapping[str, Any]) -> Step:
    percent = step.get("percent")
    return Step(
        name=str(step.get("name", "")),
        status=str(step.get("status", "")),
        percent=float(percent) if isinstance(percent, int | float) else None,
        message=str(step.get("message") or ""),
        error=_first_line(step.get("error")),
        seconds=_between(step.get("started_at"), step.get("finished_at")),
    )


def _first_line(text: object) -> str:
    return str(text or "").strip().partition("\n")[0]


def _between(started_at: object, finished_at: object) -> float | None:
    try:
        took: timedelta = datetime.fromisoformat(str(finished_at)) - datetime.fromisoformat(str(started_at))
    except (ValueError, TypeError):
        return None
    return took.total_seconds()
