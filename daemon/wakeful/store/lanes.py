"""What lane ids stand for, and which lanes nobody serves.

Invariant: no job hangs on a row of `lane`: one that is missing, late or wrong costs a notification or a delay (I10).
Claiming from lanes is `store.jobs`'.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from wakeful.store.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class UnservedLane:
    """A lane whose waiting jobs no live instance serves."""

    lane_id: int
    job_type: str
    queue: str


async def fold_lanes(database: Database, limit: int) -> int:
    """Fold lanes that producers met for the first time into `lane`; gives how many of their notes were read."""
    rows = await database.fetchval("fold_lanes", limit)
    assert isinstance(rows, int)
    return rows


async def mark_unserved(database: Database) -> bool:
    """Note since when lanes with waiting jobs are not served; forget it where one is. False: every lane is."""
    return await database.fetchval("mark_unserved") is True


async def cool_lanes(database: Database, lane_ids: Sequence[int]) -> None:
    """Say that these lanes are not polled any more, and have others look at them."""
    await database.fetch("cool_lanes", list(lane_ids))


async def find_unserved(database: Database, grace: float) -> list[UnservedLane]:
    """Lanes that nobody has served for `grace` seconds."""
    rows = await database.fetch("find_unserved", grace)
    return [
        UnservedLane(lane_id=row["lane_id"], job_type=row["job_type"], queue=row["queue"]) for row in rows
    ]


async def find_unserved_jobs(database: Database, lane_id: int, after: int, limit: int) -> dict[UUID, int]:
    """At most `limit` waiting jobs of a lane behind the position `after`, in order: job id to position."""
    rows = await database.fetch("find_unserved_jobs", lane_id, after, limit)
    return {row["job_id"]: row["pos"] for row in rows}


async def fail_unserved(database: Database, lane_id: int, positions: Sequence[int]) -> dict[UUID, str]:
    """Fail waiting jobs of a lane that nobody serves; gives their statuses. Raises DataRefused, and none has failed."""
    rows = await database.fetch("fail_unserved", lane_id, list(positions))
    return {row["job_id"]: row["status"] for row in rows}
