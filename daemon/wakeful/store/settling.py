"""What a cursor stands on: which positions are settled, and what lies unclaimed behind it (I7).

Invariant: neither statement takes or waits for a lock, and the look's position is read before its transaction id is
taken. What follows from it is `core.settling`'s and `core.cursors`'.
"""

from __future__ import annotations

from collections.abc import Sequence

from wakeful.core.settling import Reading
from wakeful.store.database import Database


async def look_at_transactions(database: Database) -> Reading:
    """The last position taken and, from before it, the transactions that were running."""
    (row,) = await database.fetch("look_at_transactions")
    return Reading(
        position=row["position"],
        number=row["number"],
        beyond=row["beyond"],
        running=frozenset(row["running"]),
    )


async def sweep_lanes(database: Database, ranges: Sequence[tuple[int, int]], *, until: int) -> dict[int, int]:
    """The first unclaimed position of each lane after the given one, and up to `until`; lanes without are left out."""
    lanes, after = [lane for lane, _ in ranges], [position for _, position in ranges]
    rows = await database.fetch("sweep_lanes", lanes, after, until)
    return {row["lane_id"]: row["pos"] for row in rows}
