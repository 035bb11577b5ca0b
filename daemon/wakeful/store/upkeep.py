"""What instances do for the fleet: taking lost jobs back, promoting due ones, sharing duties, removing what is old.

Invariant: every statement here is right when any number of instances run it at once, and waits for no row that somebody
else has locked: what is locked is left for the next pass (R10). When to run what is the runtime's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeVar
from uuid import UUID

from wakeful.store.database import Database, Record

LOWEST: Final = -(2**63)
NIL: Final = UUID(int=0)
Key = TypeVar("Key", UUID, int)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """An instance as a reaper sees it; times in seconds by the server's clock.

    `leases_past` counts the lease lengths of its job types that are past; `swept_beat` and `swept_past` say for which
    beat, and how many of these, the last pass over ready was made.
    """

    instance_id: int
    incarnation: int
    name: str
    state: Literal["live", "draining", "dead"]
    beat_seq: int
    silent: float
    lease: float
    leases_past: int
    server_clock: float
    swept_beat: int | None = None
    swept_past: int = 0

    @property
    def is_worth_a_sweep(self) -> bool:
        """Whether a lease has run out since the last pass that was made for this silent instance, or none was made."""
        return self.leases_past > (self.swept_past if self.swept_beat == self.beat_seq else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """Positions of one lane that one owner holds. `overdue`: these are far past their deadline."""

    lane_id: int
    owner: int
    overdue: bool
    positions: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedClaim:
    """A claimed job as the database knows it."""

    job_id: UUID
    pos: int
    claim: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A stretch of `ready` by primary key; `end` is where the next one starts, None after the last."""

    owned: Sequence[Owned]
    end: tuple[int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescued:
    """A job that was taken back from `owner`, whose token was `claim`; `status` is PENDING, DEAD or CANCELLED."""

    job_id: UUID
    claim: int
    owner: int
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """Jobs of scheduled that are due, by lane, and the seconds until the next one after them (None: there is none)."""

    lanes: Mapping[int, Sequence[UUID]]
    next_in: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned(Generic[Key]):
    """What one slice of a walk removed, and where the walk goes on (None: it is at the end)."""

    rows: int
    end: Key | None


async def look_at_instances(database: Database) -> list[Sight]:
    """Every instance and how its lease stands."""
    rows = await database.fetch("look_at_instances")
    return [
        Sight(
            instance_id=row["instance_id"],
            incarnation=row["incarnation"],
            name=row["name"],
            state=row["state"],
            beat_seq=row["beat_seq"],
            silent=row["silent_s"],
            lease=row["lease_s"],
            leases_past=row["leases_past"],
            swept_beat=row["swept_beat"],
            swept_past=row["swept_past"],
            server_clock=row["server_s"],
        )
        for row in rows
    ]


async def look_at_owned(database: Database, *, after: tuple[int, int], rows: int, grace: float) -> Slice:
    """The owned rows among the next `rows` of ready. Overdue is past twice its deadline and `grace` seconds."""
    found = await database.fetch("look_at_owned", *after, rows, grace)
    owned = [
        Owned(
            lane_id=row["lane_id"],
            owner=row["owner"],
            overdue=bool(row["overdue"]),
            positions=row["positions"],
        )
        for row in found
        if row["owner"] is not None
    ]
    more = sum(row["seen"] for row in found) >= rows
    return Slice(owned=owned, end=max((row["lane_id"], row["last_pos"]) for row in found) if more else None)


async def find_claims(database: Database, owned: Owned) -> list[OwnedClaim]:
    """The claims by which these jobs are owned, as far as they are still."""
    rows = await database.fetch("find_claims", owned.lane_id, owned.positions, owned.owner)
    return [OwnedClaim(job_id=row["job_id"], pos=row["pos"], claim=row["claim"]) for row in rows]


async def find_claimed(database: Database, lane_id: int, token: int, *, first: int) -> list[OwnedClaim]:
    """What a claim took at position `first` or later, in the lane's order."""
    rows = await database.fetch("find_claimed", lane_id, token, first)
    return [OwnedClaim(job_id=row["job_id"], pos=row["pos"], claim=token) for row in rows]


async def reclaim(
    database: Database, owned: Owned, *, beat_seq: int | None, grace: float | None, lost_limit: int
) -> list[Rescued]:
    """Take jobs back whose owner is dead or gone; or silent since `beat_seq`; or overdue, where `grace` is given."""
    rows = await database.fetch(
        "reclaim_jobs", owned.lane_id, owned.positions, owned.owner, beat_seq, grace, lost_limit
    )
    return [
        Rescued(job_id=row["job_id"], claim=row["claim"], owner=owned.owner, status=row["status"])
        for row in rows
    ]


async def depose(database: Database, sight: Sight, *, watched: float) -> bool:
    """Declare an instance dead, if it still stands where it was seen; `watched` is how long the reaper saw it stand."""
    row = await database.fetchrow(
        "depose_instance", sight.instance_id, sight.incarnation, sight.beat_seq, watched
    )
    return row is not None


async def note_sweep(
    database: Database, *, clean: Sequence[int], found: Sequence[int], silent: Sequence[Sight]
) -> list[int]:
    """Note a whole pass over ready. Gives the dead instances that are gone now.

    `clean`, `found`: dead ones of which nothing, and something, was found; `silent`: live ones, as seen before it.
    """
    rows = await database.fetch(
        "note_sweep",
        clean,
        found,
        [one.instance_id for one in silent],
        [one.beat_seq for one in silent],
        [one.leases_past for one in silent],
    )
    return [row["instance_id"] for row in rows]


async def look_at_due(database: Database, limit: int, *, skip: int = 0) -> Due:
    """What is due in scheduled, at most `limit` jobs, the first `skip` left out."""
    rows = await database.fetch("look_at_due", limit, skip)
    lanes = {row["lane_id"]: row["job_ids"] for row in rows if row["lane_id"] is not None}
    return Due(lanes=lanes, next_in=rows[0]["seconds"])


async def promote(database: Database, lane_id: int, job_ids: Sequence[UUID]) -> int:
    """Move due jobs of a lane to ready; gives how many."""
    return await _count(database, "promote_jobs", lane_id, job_ids)


async def take_duties(database: Database, intervals: Mapping[str, float]) -> set[str]:
    """Take those of these duties that are due; each is this instance's until its interval (seconds) is over."""
    rows = await database.fetch("take_duties", list(intervals), list(intervals.values()))
    return {row["name"] for row in rows}


async def take_duty(database: Database, name: str, interval: float) -> bool:
    """Take one duty; False: it is not due, or another instance has it."""
    return name in await take_duties(database, {name: interval})


async def hold_duty(database: Database, name: str, seconds: float) -> None:
    """Keep a duty that is under way for so many seconds more; 0: it is done, and anybody may take it."""
    await database.fetch("hold_duty", name, seconds)


async def keep_duties(database: Database, names: Sequence[str]) -> None:
    """Make the rows of duties that are missing."""
    await database.fetch("keep_duties", names)


async def refresh_job_types(database: Database) -> list[str]:
    """Bring the declarations in force up to date; gives the types that changed (I24)."""
    return [row["job_type"] for row in await database.fetch("refresh_job_types")]


async def expire_finished(database: Database, history: float) -> dict[int, bool]:
    """Empty slots of the ring that are past `history` seconds: slot to True, or False where a reader is in the way."""
    return {row["slot"]: row["emptied"] for row in await database.fetch("expire_finished", history)}


async def prune_dead(database: Database, age: float, limit: int, *, leave: Sequence[UUID] = ()) -> int:
    """Remove dead letters older than `age` seconds but for `leave`, with progress and log; gives how many."""
    return await _count(database, "prune_dead", age, limit, list(leave))


async def find_old_dead(database: Database, age: float, *, leave: Sequence[UUID]) -> UUID | None:
    """The oldest dead letter that `prune_dead` would remove."""
    row = await database.fetchrow("find_old_dead", age, list(leave))
    return None if row is None else row["job_id"]


async def prune_alerts(database: Database, age: float, limit: int) -> int:
    """Remove alerts resolved more than `age` seconds ago, with their deliveries; gives how many."""
    return await _count(database, "prune_alerts", age, limit)


async def prune_outbox(database: Database, age: float, limit: int) -> int:
    """Remove folded events older than `age` seconds; gives how many."""
    return await _count(database, "prune_outbox", age, limit)


async def prune_audit(database: Database, age: float, limit: int) -> int:
    """Remove entries of the audit older than `age` seconds; gives how many."""
    return await _count(database, "prune_audit", age, limit)


async def prune_progress(
    database: Database, after: UUID, limit: int, *, only_look: bool = False
) -> Pruned[UUID]:
    """Remove progress of jobs that are gone, among the next `limit` jobs that have any."""
    return _pruned(await database.fetchrow("prune_progress", after, limit, not only_look), limit)


async def prune_job_log(
    database: Database, after: UUID, limit: int, *, only_look: bool = False
) -> Pruned[UUID]:
    """Remove log lines of jobs that are gone, among the next `limit` jobs that have any."""
    return _pruned(await database.fetchrow("prune_job_log", after, limit, not only_look), limit)


async def prune_lanes(
    database: Database, after: int, limit: int, *, age: float, only_look: bool = False
) -> Pruned[int]:
    """Remove rows of lanes without jobs, unused for `age` seconds, among the next `limit` lanes."""
    return _pruned(await database.fetchrow("prune_lanes", after, limit, age, not only_look), limit)


def _pruned(row: Record | None, limit: int) -> Pruned[Any]:
    assert row is not None, "a select without a from clause gives one row"
    return Pruned(rows=row["rows"], end=row["last_id"] if row["seen"] >= limit else None)


async def _count(database: Database, statement: str, *arguments: object) -> int:
    row = await database.fetchrow(statement, *arguments)
    assert row is not None, "an aggregate gives one row"
    rows: int = row[0]
    return rows
