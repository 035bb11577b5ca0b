"""What the metrics tell of the whole database, read in one bounded statement that locks nothing; and who reads it."""

from __future__ import annotations

from dataclasses import dataclass

from wakeful.store.database import Database
from wakeful.telemetry.series import MOST_VALUES


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """The instance that reads the gauges for all, and the version of the schema."""

    instance_id: int
    schema_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One value. `gauge` is the metric's name without its prefix; `labels` the values of its labels, as many as two."""

    gauge: str
    labels: tuple[str | None, str | None]
    value: float


async def find_gauge_reader(database: Database, instance_id: int) -> Reader:
    """Who reads, as far as an instance can tell: itself, where it has no row and nobody else lives."""
    row = await database.fetchrow("find_gauge_reader", instance_id)
    assert row is not None, "a select without a from clause gives one row"
    found = row["instance_id"]
    return Reader(instance_id=instance_id if found is None else found, schema_version=row["schema_version"])


async def read_gauges(database: Database, *, cap: int, names: int = MOST_VALUES) -> list[Reading]:
    """All values; counting stops at `cap` jobs a lane and rows a table, and beyond `names` queues they are one."""
    return [
        Reading(gauge=row["gauge"], labels=(row["first_label"], row["second_label"]), value=row["value"])
        for row in await database.fetch("read_gauges", cap, names)
    ]
