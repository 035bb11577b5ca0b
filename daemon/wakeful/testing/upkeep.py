"""What the fleet does about an instance that died, and each of its loops alone, for tests.

Every function takes whatever names a database; a loop runs until its stop event is set.
"""

from __future__ import annotations

from typing import Final

import anyio

from wakeful.core.settings import HistorySettings
from wakeful.runtime import promoter, pruner, reaper
from wakeful.store.upkeep import Rescued
from wakeful.testing.databases import WhichDatabase, opened
from wakeful.testing.instance import Instance

_HISTORY: Final = HistorySettings()


async def expire_lease(db: WhichDatabase, instance: Instance | int) -> None:
    """Make an instance look as if its beat had stopped long ago; nothing is taken from it until `reap`."""
    instance_id = instance if isinstance(instance, int) else instance.instance_id
    async with opened(db) as database:
        await database.fetch("expire_lease", instance_id)


async def reap(db: WhichDatabase) -> list[Rescued]:
    """Take back, now and without a watch, the jobs of instances whose lease is past; gives them."""
    async with opened(db) as database:
        return list(await reaper.reap_once(database))


async def run_reaper(
    db: WhichDatabase, stop: anyio.Event, *, interval: float = 5.0, beat: float | None = None
) -> None:
    """Take jobs back from instances whose lease is past, and whose beat stood still while this looked on.

    `beat`: seconds between the beats of the instances, `interval` where none is given. It looks on for three of them.
    """
    async with opened(db) as database:
        await reaper.run_reaper(database, stop, interval=interval, beat=beat or interval)


async def run_promoter(db: WhichDatabase, stop: anyio.Event, *, interval: float = 5.0) -> None:
    """Make scheduled jobs claimable when they are due; looks at least every `interval` seconds."""
    async with opened(db) as database:
        await promoter.run_promoter(database, stop, poll=interval)


async def run_pruner(
    db: WhichDatabase, stop: anyio.Event, *, interval: float = 60.0, history: HistorySettings = _HISTORY
) -> None:
    """Remove what is past the history, every `interval` seconds."""
    async with opened(db) as database:
        await pruner.run_pruner(database, stop, history=history, interval=interval)
