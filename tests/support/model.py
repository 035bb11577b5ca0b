"""What a queue should hold: every job, told of the same operations as the database, in the plainest code there is.

It owns no clock and no order: which of several jobs a claim takes is seen in the database, and checked there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

from wakeful.store.jobs import Verb

Table = Literal["ready", "scheduled", "dead", "finished"]
LOST_LIMIT = 3
GIVEN_BACK = ("lose", "snooze", "hand_back", "put_back")
ENDED = ("DONE", "DEAD", "CANCELLED")


@dataclass(slots=True, kw_only=True)
class ModelJob:
    """One job. `moved_by`: the token of the owner whose own write put it where it is."""

    queue: str
    job_type: str
    key: str | None
    max_attempts: int
    table: Table = "ready"
    status: str = "PENDING"
    attempts: int = 0
    run_no: int = 0
    lost: int = 0
    handed_back: int = 0
    snoozed: int = 0
    owner: int | None = None
    token: int | None = None
    moved_by: int | None = None
    cancel_requested: bool = False

    @property
    def is_active(self) -> bool:
        """Whether it holds its dedupe key."""
        return self.status not in ENDED


@dataclass(slots=True, kw_only=True)
class Model:
    """All jobs that there are, and what was told and noted of them."""

    jobs: dict[UUID, ModelJob] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)
    draining: set[int] = field(default_factory=set)
    deaths: int = 0
    never_finishes: int = 0
    alerts: int = 0
    audited: int = 0

    def holder(self, key: str | None) -> UUID | None:
        """The active job with this key."""
        holders = [
            one for one, job in self.jobs.items() if key is not None and job.is_active and job.key == key
        ]
        assert len(holders) <= 1
        return holders[0] if holders else None

    def keys(self) -> dict[str, UUID]:
        """The keys that are taken, and by whom."""
        return {job.key: one for one, job in self.jobs.items() if job.key is not None and job.is_active}

    def told(self) -> tuple[int, ...]:
        """Deaths, jobs that never finish, alerts of producers, and entries of the audit."""
        return self.deaths, self.never_finishes, self.alerts, self.audited

    def claimable(self) -> set[UUID]:
        """The jobs that could start now."""
        return {
            one
            for one, job in self.jobs.items()
            if job.table == "ready" and job.owner is None and job.queue not in self.paused
        }

    def backlog(self, queue: str | None) -> int:
        """How many could start now, in a queue or in all."""
        return sum(queue in (None, self.jobs[one].queue) for one in self.claimable())

    def is_held(self, job_id: UUID, token: int) -> bool:
        """Whether this claim holds."""
        job = self.jobs.get(job_id)
        return job is not None and job.status == "RUNNING" and job.token == token

    def claim(self, job_id: UUID, *, owner: int, token: int) -> None:
        """An instance takes a waiting job."""
        job = self.jobs[job_id]
        job.status, job.owner, job.token = "RUNNING", owner, token
        job.attempts += 1
        job.run_no += 1

    def finish(self, job_id: UUID, token: int) -> bool:
        """DONE, by the claim that holds it."""
        if not self.is_held(job_id, token):
            return False
        self._end(self.jobs[job_id], "DONE", moved_by=token)
        return True

    def settle(self, job_id: UUID, token: int, verb: Verb, *, later: bool) -> str | None:
        """Any other end, by the claim that holds it; gives the status."""
        if not self.is_held(job_id, token):
            return None
        return self._depart(self.jobs[job_id], verb, later=later, moved_by=token)

    def lose(self, owner: int) -> set[UUID]:
        """An instance is dead: its jobs are taken back."""
        lost = {one for one, job in self.jobs.items() if job.owner == owner}
        for one in lost:
            self._depart(self.jobs[one], "lose", later=False, moved_by=None)
        return lost

    def fail_unserved(self, job_type: str) -> dict[UUID, str]:
        """Nobody serves a type for long: what waits of it fails, without an owner. Gives the statuses."""
        waiting = {one for one in self.claimable() if self.jobs[one].job_type == job_type}
        return {one: self._fail_unserved(self.jobs[one]) for one in waiting}

    def _fail_unserved(self, job: ModelJob) -> str:
        job.run_no += 1
        job.attempts += 1
        return self._depart(job, "fail", later=True, moved_by=None)

    def promote(self, job_id: UUID) -> None:
        """A job that waited for its time is due."""
        self.jobs[job_id].table = "ready"

    def cancel(self, job_id: UUID) -> str:
        """Gives the answer, or the SQLSTATE."""
        job = self.jobs.get(job_id)
        if job is None:
            return "WK010"
        if job.status == "RUNNING":
            self.audited += 1
            job.cancel_requested = True
        elif job.status == "PENDING":
            self.audited += 1
            self._end(job, "CANCELLED", moved_by=None)
        return job.status

    def requeue(self, job_id: UUID) -> str:
        """Gives "requeued", "no", or the SQLSTATE."""
        job = self.jobs.get(job_id)
        if job is None:
            return "WK010"
        if job.status not in ("DEAD", "CANCELLED"):
            return "no"
        if self.holder(job.key) is not None:
            return "WK012"
        self.audited += 1
        job.table, job.status, job.moved_by = "ready", "PENDING", None
        job.attempts = job.lost = job.handed_back = job.snoozed = 0
        return "requeued"

    def verdict(self, job_id: UUID, token: int) -> str:
        """What became of a claim."""
        job = self.jobs.get(job_id)
        if job is None:
            return "unknown"
        if self.is_held(job_id, token):
            return "mine"
        status = "PENDING" if job.table in ("ready", "scheduled") else job.status
        return status if job.moved_by == token else "lost"

    def _depart(self, job: ModelJob, verb: Verb, *, later: bool, moved_by: int | None) -> str:
        job.lost += verb == "lose"
        job.snoozed += verb == "snooze"
        job.handed_back += verb == "hand_back"
        job.attempts -= verb in GIVEN_BACK
        if verb == "discard" or job.cancel_requested:
            self._end(job, "CANCELLED", moved_by=moved_by)
        elif self._is_fatal(job, verb):
            self._end(job, "DEAD", moved_by=moved_by)
            self.deaths += 1
        else:
            self.never_finishes += verb == "hand_back" and job.handed_back == 5
            job.table, job.status = ("scheduled" if later else "ready"), "PENDING"
            job.owner, job.token, job.moved_by = None, None, moved_by
        return job.status

    @staticmethod
    def _is_fatal(job: ModelJob, verb: Verb) -> bool:
        spent = verb == "fail" and job.attempts >= job.max_attempts
        return verb == "refuse" or spent or (verb == "lose" and job.lost >= LOST_LIMIT)

    @staticmethod
    def _end(job: ModelJob, status: str, *, moved_by: int | None) -> None:
        job.table = "dead" if status == "DEAD" else "finished"
        job.status, job.owner, job.token, job.cancel_requested, job.moved_by = (
            status,
            None,
            None,
            False,
            moved_by,
        )
