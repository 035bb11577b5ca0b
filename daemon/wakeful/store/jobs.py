"""Claiming jobs and ending their attempts: one method a statement, rows in, values out.

Invariant: every write names its claim token. A row that does not come back says nothing by itself; `verdicts` reads
what became of it in a later statement (R3). Batching, order and retries are the runtime's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple, Protocol, TypeVar
from uuid import UUID

from wakeful.core.job import Job
from wakeful.core.outcome import AlertRequest, FollowUp
from wakeful.store.database import Database, Record, Transaction

Verb = Literal["fail", "refuse", "lose", "snooze", "hand_back", "put_back", "discard"]
Status = Literal["PENDING", "DONE", "DEAD", "CANCELLED"]
# A status: the job was moved by this token, and is there now.
Verdict = Status | Literal["mine", "lost", "unknown"]

T = TypeVar("T")

# Where a statement can run: by itself, or in a transaction with others.
Runner = Database | Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A lane with something to claim: its first job is at `pos` and has been due for `waiting` seconds.

    `served`: this instance serves its type and its queue.
    """

    lane_id: int
    pos: int
    job_type: str
    queue: str
    priority: str
    limit_key: str | None
    suspect: bool
    waiting: float
    served: bool = True


class Claimed(NamedTuple):
    """A claimed job, how long it had been due and had snoozed in all (seconds), and its time, seconds since 1970."""

    job: Job
    wait: float
    snoozed: float
    claimed_epoch: float


class Finish(NamedTuple):
    """One DONE: texts are JSON, `degraded` null where there is nothing to say."""

    pos: int
    claim: int
    result: str
    degraded: str | None
    keep: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """One end of an attempt that is not DONE: see the type `departure` in schema.sql. `delay` is in seconds."""

    pos: int
    claim: int
    verb: Verb
    reason: str | None
    entry: str | None
    delay: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """Where a settled job is now: PENDING (after `delay` seconds), DEAD or CANCELLED."""

    claim: int
    status: Status
    delay: float


class Held(Protocol):
    """What finds a claimed row and proves that it is ours."""

    @property
    def lane_id(self) -> int:
        """Lane of the row."""
        ...

    @property
    def pos(self) -> int:
        """Position in the lane."""
        ...

    @property
    def claim(self) -> int:
        """Token of the claim."""
        ...

    @property
    def job_id(self) -> UUID:
        """Id of the job."""
        ...


async def find_lanes(
    database: Database, *, job_types: Sequence[str] | None, queues: Sequence[str] | None
) -> list[Lane]:
    """The lanes with something to claim; None for the types or queues means every one."""
    lanes, _ = await look_at_lanes(database, job_types=job_types, queues=queues)
    return [one for one in lanes if one.served]


async def look_at_lanes(
    database: Database,
    *,
    job_types: Sequence[str] | None,
    queues: Sequence[str] | None,
    known: Sequence[tuple[int, int]] = (),
    others: bool = True,
) -> tuple[list[Lane], float]:
    """The lanes with claimable jobs, also those that this instance does not serve; and the seconds for which some lane,
    with jobs or without, is still marked hot, 0 where none is.

    `known`: lane ids in order, each with the position after which to look there; `others`: look for more lanes, too.
    """
    lane_ids, positions = [one for one, _ in known], [after for _, after in known]
    rows = await database.fetch("find_lanes", job_types, queues, lane_ids, positions, others)
    lanes = [
        Lane(
            lane_id=row["lane_id"],
            pos=row["pos"],
            job_type=row["job_type"],
            queue=row["queue"],
            priority=row["priority"],
            limit_key=row["limit_key"],
            suspect=row["suspect"],
            waiting=row["waiting_s"],
            served=row["served"],
        )
        for row in rows
        if row["lane_id"] is not None
    ]
    return lanes, rows[-1]["waiting_s"] if len(rows) > len(lanes) else 0.0


async def claim(
    database: Database,
    lane: Lane,
    limit: int,
    *,
    owner: tuple[int, int],
    token: int,
    hurried: bool,
    after: int = 0,
) -> list[Claimed]:
    """Claim at most `limit` first jobs of a lane for `owner` (instance id, incarnation), in the lane's order.

    `hurried` commits asynchronously: only for types whose jobs run under a second (I6). Only what lies behind the
    position `after` is looked at; nothing is claimed while its queue is paused.
    """
    rows = await database.fetch("claim_jobs", lane.lane_id, limit, *owner, token, hurried, after, lane.queue)
    claimed = [_claimed(row, lane, token) for row in rows]
    claimed.sort(key=lambda one: one.job.pos)
    return claimed


async def finish(runner: Runner, lane_id: int, finishes: Sequence[Finish]) -> set[tuple[int, int]]:
    """Make jobs of one lane DONE; gives the (position, token) pairs that came back."""
    positions, tokens, results, degraded, kept = map(list, zip(*finishes, strict=True))
    # What is so of all of them is left out: the driver looks at each member of an array, for longer than it sends.
    rows = await runner.fetch(
        "finish_jobs",
        *(lane_id, positions, tokens),
        *(_unless_all(results, "null"), _unless_all(degraded, None), _unless_all(kept, True)),  # noqa: FBT003 - a value
    )
    return set(map(tuple, rows))


def _unless_all(values: list[T], usual: T) -> list[T]:
    return [] if values.count(usual) == len(values) else values


async def settle(
    runner: Runner, lane_id: int, settlements: Sequence[Settlement], *, lost_limit: int
) -> dict[UUID, Settled]:
    """End attempts of one lane in any other way; gives what came back, by job id."""
    rows = await runner.fetch(
        "settle_jobs",
        lane_id,
        [one.pos for one in settlements],
        [one.claim for one in settlements],
        [one.verb for one in settlements],
        [one.reason for one in settlements],
        [one.entry for one in settlements],
        [one.delay for one in settlements],
        lost_limit,
    )
    return {
        row["job_id"]: Settled(claim=row["claim"], status=row["status"], delay=row["delay_s"]) for row in rows
    }


async def verdicts(database: Database, held: Sequence[Held]) -> list[Verdict]:
    """What became of jobs whose rows did not come back, in the order asked."""
    rows = await database.fetch(
        "read_verdicts",
        [one.job_id for one in held],
        [one.claim for one in held],
        [one.lane_id for one in held],
        [one.pos for one in held],
    )
    by_number: dict[int, Verdict] = {row["n"]: row["verdict"] for row in rows}
    return [by_number[n] for n in range(1, len(held) + 1)]


async def keep_ended(database: Database, held: Sequence[Held]) -> set[UUID]:
    """Move the deadline of jobs whose attempt has ended and waits to be written; gives those that were past theirs."""
    parts = [one.lane_id for one in held], [one.pos for one in held], [one.claim for one in held]
    return {row["job_id"] for row in await database.fetch("keep_ended", *parts)}


async def release_claim(database: Database, lane_id: int, token: int, *, first: int) -> tuple[int, int]:
    """Give back what a claim with a lost reply took at position `first` or later; (jobs released, jobs locked)."""
    (row,) = await database.fetch("release_claim", lane_id, token, first)
    return row["released"], row["left_behind"]


async def mark_hot(database: Database, lanes: Sequence[Lane]) -> None:
    """Say that these lanes are polled, so that producers need not notify."""
    parts = [
        (one.lane_id, one.queue, one.priority, one.job_type, one.limit_key, one.suspect) for one in lanes
    ]
    await database.fetch("mark_hot", *(list(column) for column in zip(*parts, strict=True)))


async def enqueue_follow_up(runner: Runner, follow_up: FollowUp) -> UUID | None:
    """Enqueue a job in the transaction that finishes its parent. Raises OptionRefused.

    Gives the active job that has its dedupe key already, in whose favour none was created; None where it was.
    """
    (row,) = await runner.fetch(
        "enqueue_follow_up", follow_up.job_type, follow_up.payload_text, follow_up.options_text
    )
    return None if row["created"] else row["job_id"]


async def raise_alert(runner: Runner, alert: AlertRequest, job: Job) -> None:
    """Write an alert of a handler in the transaction that settles its job. Raises OptionRefused."""
    await runner.fetch(
        "raise_alert",
        alert.kind,
        alert.title,
        alert.dedupe_key,
        alert.severity,
        alert.subject if alert.subject is not None else job.subject,
        alert.body_text,
        job.job_type,
        job.job_id,
    )


async def write_progress(database: Database, documents: Sequence[tuple[Held, str]]) -> set[int]:
    """Store progress documents; gives the indexes (from 0) of those whose claim still holds."""
    rows = await database.fetch(
        "write_progress",
        [held.lane_id for held, _ in documents],
        [held.pos for held, _ in documents],
        [held.claim for held, _ in documents],
        [document for _, document in documents],
    )
    return {row["n"] - 1 for row in rows}


async def write_job_log(
    database: Database, lines: Sequence[tuple[UUID, int, int, datetime, str, str]]
) -> None:
    """Store log lines: (job id, run, line number, time, level, text)."""
    if lines:
        await database.fetch("write_job_log", *(list(column) for column in zip(*lines, strict=True)))


def _claimed(row: Record, lane: Lane, token: int) -> Claimed:
    # In the order of claim_jobs.sql's columns: to ask for each by its name costs more than all the rest. What the jobs
    # of a lane have in common is not among them.
    # fmt: off
    (pos, job_id, subject, payload_text, attempts, max_attempts, run_no, lost, snoozed, deadline, tags, meta_text,
     epoch, wait) = row
    job = tuple.__new__(Job, (  # as its own constructor does, by a call more for each job
        lane.lane_id, pos, token, job_id, lane.job_type, lane.queue, lane.priority, subject, payload_text,
        attempts, max_attempts, run_no, lost, deadline, tuple(tags) if tags else (), meta_text or "{}",
    ))
    # fmt: on
    return tuple.__new__(Claimed, (job, wait, snoozed or 0.0, epoch))
