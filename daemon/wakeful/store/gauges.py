"""What the metrics tell of the whole database, read in one bounded statement that locks nothing."""

from __future__ import annotations

from dataclasses import dataclass

from wakeful.store.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One value. `gauge` is the metric's name without its prefix; `label` its second label, such as a status."""

    gauge: str
    queue: str | None
    label: str | None
    value: float


async def read_gauges(database: Database, *, cap: int) -> list[Reading]:
    """All values; counting stops at `cap` jobs a lane and rows a table."""
    return [
        Reading(gauge=row["gauge"], queue=row["queue"], label=row["label"], value=row["value"])
        for row in await database.fetch("read_gauges", cap)
    ]
