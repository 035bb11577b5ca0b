"""What the judge is given: who ran what when, what was enqueued, what was done to the fleet, what is left.

Invariant: values only. All times are of the machine's monotonic clock, in seconds, which every process of it shares;
the database's own times are never compared with them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

TERMINAL = ("DONE", "CANCELLED", "DEAD")


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One call of a handler. `how`: END, FAILED, CANCELLED, or KILLED where its process ended first."""

    job_id: str
    job_type: str
    run_no: int
    nonce: str
    slot: str
    pid: int
    began: float
    ended: float
    how: str
    error: str = ""
    deaf: float = math.inf  # since when it swallows its cancellation
    early: bool = False  # it began before its job was due


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueued:
    """A job in a producer's own ledger. `fate`: COMMITTED, ROLLED_BACK, or UNKNOWN (no reply to the commit)."""

    job_id: str
    job_type: str
    fate: str
    at: float
    max_attempts: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeued:
    """A requeue by hand. `was`: the status before; `sure`: its reply arrived."""

    job_id: str
    was: str
    sure: bool
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A job's row, wherever it is."""

    job_id: str
    job_type: str
    table: str
    status: str
    attempts: int
    max_attempts: int
    run_no: int
    lost: int = 0
    result_run_no: int | None = None
    result_nonce: str | None = None
    parent: str | None = None  # of a follow-up
    progress_run_no: int | None = None
    steps_done: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A death in the outbox. `folded`: it is counted in an alert."""

    job_id: str
    folded: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What was done to the fleet.

    `back`: seconds until throughput was back, `whole`: until every daemon was live again; None: not seen to be so.
    """

    kind: str
    slot: str
    began: float
    ended: float
    back: float | None = None
    whole: float | None = None
    alone: bool = True
    note: str = ""

    def covers(self, begin: float, end: float) -> bool:
        """Whether it was under way at any moment between the two."""
        return self.began <= end and begin <= self.ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetime:
    """A daemon's process. `why`: killed, stopped (SIGTERM), left (by itself) or over (the soak's end)."""

    slot: str
    pid: int
    began: float
    ended: float
    why: str
    exit_code: int
    stop_seconds: float = 0.0
    last_words: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """A RUNNING row whose owner was silent or gone. `silent`: seconds since its last beat, or since first seen."""

    job_id: str
    run_no: int
    at: float
    silent: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What the fleet used while it idled."""

    connections: int
    megabytes: Mapping[str, float]  # by slot
    threads: Mapping[str, int]
    table_bytes: Mapping[str, int]
    table_rows: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All of it."""

    executions: Sequence[Execution] = ()
    enqueued: Sequence[Enqueued] = ()
    requeued: Sequence[Requeued] = ()
    rows: Sequence[Row] = ()
    told: Sequence[Told] = ()
    occurrences: int = 0  # the sum over all alerts of deaths
    keys_left: Sequence[str] = ()
    faults: Sequence[Fault] = ()
    lifetimes: Sequence[Lifetime] = ()
    orphans: Sequence[Orphan] = ()
    before: Usage | None = None
    after: Usage | None = None
    lost_limit: int = 3
    _runs: dict[str, list[Execution]] = field(default_factory=dict)

    def runs(self) -> Mapping[str, Sequence[Execution]]:
        """The executions of each job, in the order in which they began."""
        if not self._runs:
            ordered = sorted(self.executions, key=lambda one: (one.job_id, one.began))
            for job_id, of_job in groupby(ordered, key=lambda one: one.job_id):
                self._runs[job_id] = list(of_job)
        return self._runs

    def crashes(self) -> Sequence[Fault]:
        """The crashes of the server, which forget what was not committed synchronously (I6)."""
        return [one for one in self.faults if one.kind == "server_crash"]
