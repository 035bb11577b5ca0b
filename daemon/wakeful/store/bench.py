"""What `wakeful bench` asks of a database: jobs of one queue that is its own, probes, and the removal of all of it.

Invariant: every statement names the measurement; a removal touches nothing of others and finds its rows by key, so that
a large history costs it nothing.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from wakeful.store.database import Database

BATCH: Final = 10_000
_RANDOM_BITS: Final = 80  # of a UUIDv7, below its time


async def missing_rights(database: Database) -> list[str]:
    """What this role may not do and a measurement has to; empty where it may all."""
    return [row["missing"] for row in await database.fetch("may_bench")]


async def hold(database: Database, name: str) -> UUID:
    """Open a measurement, its queue held; gives an id that none of its jobs comes before."""
    first = await database.fetchval("hold_bench", name)
    assert isinstance(first, UUID)
    return UUID(int=first.int >> _RANDOM_BITS << _RANDOM_BITS)


async def release(database: Database, name: str) -> None:
    """Let the measured instance at its queue."""
    await database.fetch("release_bench", name)


async def fill(database: Database, name: str, jobs: int) -> int:
    """Enqueue so many jobs in one call; gives how many were."""
    filled = await database.fetchval("fill_bench", name, jobs)
    assert isinstance(filled, int)
    return filled


async def enqueue(database: Database, name: str) -> None:
    """Enqueue one job, with its wake-up."""
    await database.fetch("enqueue_bench", name)


async def count_left(database: Database, name: str) -> int:
    """Jobs that are not yet at their end."""
    left = await database.fetchval("count_bench", name)
    assert isinstance(left, int)
    return left


async def round_trip(database: Database) -> None:
    """Ask for nothing."""
    await database.fetch("probe_trip")


async def commit(database: Database, *, hurried: bool) -> None:
    """Commit a transaction that writes next to nothing; `hurried` does not wait for the disk."""
    await database.fetch("probe_commit", hurried)


async def read_server(database: Database) -> tuple[int, str]:
    """Bytes of WAL that the server has written so far, and its version."""
    row = await database.fetchrow("read_wal_position")
    assert row is not None, "a select without a from clause gives one row"
    return row["written"], row["version"]


async def is_near(database: Database) -> bool:
    """Is the server on this machine, as far as it can tell? Behind a pooler nobody knows: no."""
    near = await database.fetchval("is_server_near")
    return near is True and not database.pooled  # what is there is known once it is connected to


async def forget(database: Database, name: str, first: UUID) -> None:
    """Remove all that a measurement made."""
    while await database.fetchval("forget_bench_jobs", name, first, BATCH):
        pass
    await database.fetch("forget_bench_marks", name)
    await database.fetch("forget_bench_lanes", name)
