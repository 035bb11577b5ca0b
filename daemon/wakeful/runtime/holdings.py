"""What this process holds: its claims, from before they are sent until the database has taken their end.

Invariant: a claim is here while the database may believe that we own it, so the beat can look after it, and nothing is
here twice. A job that was lost and claimed again is here as two claims until the former one's handler has ended.
Tokens are registered before their statement is sent; one whose reply was lost is *doubtful* until it was given back.
Read by the beat's thread, written by the event loop: every access takes the lock.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final, Literal
from uuid import UUID

from wakeful.core.job import Job
from wakeful.store.jobs import Claimed

if TYPE_CHECKING:
    from wakeful.telemetry.tracing.blocks import AttemptTrace

Stage = Literal["waiting", "running", "ending"]

ASK_SECONDS: Final = 5.0


class Holding:
    """One claimed job. `lease` is its type's, in seconds; times are monotonic seconds of this process.

    `key` names this claim of this job: a token is one a statement, a job may be claimed again; `trace` is that of its
    attempt, where it has begun and is traced. Written out, since one is made for each claim, and a dataclass of this
    size takes twice as long to make.
    """

    __slots__ = (
        *("claimed_epoch", "job", "key", "lease", "lost", "received", "snoozed", "stage", "started"),
        *("suspect", "trace", "wait"),
    )

    def __init__(
        self, claimed: Claimed, lease: float, *, suspect: bool = False, received: float | None = None
    ) -> None:
        job, self.wait, self.snoozed, self.claimed_epoch = claimed
        self.job: Job = job
        self.key: tuple[UUID, int] = (job.job_id, job.claim)
        self.lease = lease
        self.suspect = suspect
        self.received = time.monotonic() if received is None else received
        self.stage: Stage = "waiting"
        self.lost = False
        self.started: float | None = None
        self.trace: AttemptTrace | None = None

    @property
    def lane_id(self) -> int:
        """Lane of the row."""
        return self.job.lane_id

    @property
    def pos(self) -> int:
        """Position of the row in its lane."""
        return self.job.pos

    @property
    def claim(self) -> int:
        """Token of the claim."""
        return self.job.claim

    @property
    def job_id(self) -> UUID:
        """Id of the job."""
        return self.job.job_id


def identity_of(holding: Holding) -> dict[str, object]:
    """What every event about this attempt carries."""
    job = holding.job
    fields: dict[str, object] = {
        "job_id": job.job_id,
        "job_type": job.job_type,
        "queue": job.queue,
        "subject": job.subject,
        "run_no": job.run_no,
        "attempt": job.attempts,
    }
    return fields if holding.trace is None else fields | holding.trace.ids


@dataclass(slots=True, kw_only=True)
class Doubt:
    """A claim whose reply was lost: what it took, if anything, is given back until `until`; asked at `ask_at`.

    It can have taken nothing before the position `first`.
    """

    lane_id: int
    token: int
    first: int
    until: float
    ask_at: float = 0.0


class Holdings:
    """The claims of this process, by job and token."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._held: dict[tuple[UUID, int], Holding] = {}
        self._doubts: dict[int, Doubt] = {}
        self._asked: set[int] = set()

    def __len__(self) -> int:
        return len(self._held)

    def add(self, holdings: Iterable[Holding]) -> None:
        """Take claimed jobs on."""
        with self._lock:
            for holding in holdings:
                self._held[holding.key] = holding

    def drop(self, *holdings: Holding) -> None:
        """Let go of jobs whose end the database has taken, or that are not ours any more."""
        with self._lock:
            for holding in holdings:
                self._held.pop(holding.key, None)

    def snapshot(self) -> list[Holding]:
        """Everything held now."""
        with self._lock:
            return list(self._held.values())

    @contextmanager
    def asking(self, token: int) -> Iterator[None]:
        """Note that a claim is under way: from before it is sent until what it brought is held, or doubted."""
        with self._lock:
            self._asked.add(token)
        try:
            yield
        finally:
            with self._lock:
                self._asked.discard(token)

    def knows(self, job_id: UUID, claim: int) -> bool:
        """Whether this claim of a job is held, or may be as far as this process can tell."""
        with self._lock:
            return (job_id, claim) in self._held or claim in self._asked or claim in self._doubts

    def by_queue(self) -> Counter[str]:
        """How many jobs of each queue are waiting for a worker or running."""
        return Counter(one.job.queue for one in self.snapshot() if one.stage != "ending")

    def has_suspect(self) -> bool:
        """Whether a job that lost its owner twice is held: an instance runs one of them at a time (I11)."""
        return any(one.suspect for one in self.snapshot())

    def doubt(self, lane_id: int, token: int, *, first: int, until: float) -> None:
        """Note that the reply to a claim was lost."""
        with self._lock:
            self._doubts[token] = Doubt(lane_id=lane_id, token=token, first=first, until=until)

    def doubts(self) -> list[Doubt]:
        """Claims with lost replies that are to be given back now; each again after a while, should it commit late."""
        now = time.monotonic()
        with self._lock:
            self._doubts = {token: one for token, one in self._doubts.items() if one.until > now}
            due = [one for one in self._doubts.values() if one.ask_at <= now]
            for one in due:
                one.ask_at = now + ASK_SECONDS
            return due

    def resolve(self, doubt: Doubt) -> None:
        """What a doubtful claim took was given back."""
        with self._lock:
            self._doubts.pop(doubt.token, None)
