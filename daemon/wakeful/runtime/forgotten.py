"""Gives back the jobs that a server says are ours and that this process does not hold: it has forgotten their ends.

A standby that was promoted without the last commits, or a server that did not bring them to its disk, knows a job as
running that has ended here. Its owner lives and beats, so no reaper takes it. Invariant: only a claim that is neither
held, nor asked for, nor doubtful is given back, by its token, uncharged; the rows are read before it is asked what is
held, since a claim is noted before it is sent and let go of after its end is written (I8).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from wakeful.errors import DataRefused
from wakeful.runtime.halving import in_halves, tell_stranded
from wakeful.runtime.holdings import Holdings
from wakeful.runtime.lease import Lease
from wakeful.runtime.sweep import FIRST_SLICE
from wakeful.store import jobs as store
from wakeful.store import upkeep
from wakeful.store.database import Database
from wakeful.store.jobs import Settlement
from wakeful.store.upkeep import LOWEST, Owned
from wakeful.telemetry.events import JOBS_FORGOTTEN

_NO_LIMIT = 2**31 - 1  # of lost owners: none is lost


async def give_back_forgotten(database: Database, lease: Lease, holdings: Holdings) -> int:
    """Look at all of ready once; gives how many jobs were given back. Raises StoreUnavailable."""
    owner, given = lease.owner, 0
    after: tuple[int, int] | None = (LOWEST, LOWEST)
    while owner is not None and after is not None:
        part = await upkeep.look_at_owned(database, after=after, rows=FIRST_SLICE, grace=0.0)
        for owned in part.owned:
            if owned.owner == owner.instance_id:
                given += await _give_back(database, owned, holdings)
        after = part.end
    if given:
        database.telemetry.emit(JOBS_FORGOTTEN, jobs=given)
    return given


async def _give_back(database: Database, owned: Owned, holdings: Holdings) -> int:
    claims = await upkeep.find_claims(database, owned)
    unheld = [
        Settlement(pos=one.pos, claim=one.claim, verb="put_back", reason=None, entry=None, delay=0.0)
        for one in claims
        if not holdings.knows(one.job_id, one.claim)
    ]

    async def write(settlements: Sequence[Settlement]) -> int:
        return len(await store.settle(database, owned.lane_id, settlements, lost_limit=_NO_LIMIT))

    return sum(await in_halves(unheld, write, partial(_strand, database)))


def _strand(database: Database, settlement: Settlement, error: DataRefused) -> None:
    tell_stranded(database.telemetry, "put back", f"position {settlement.pos}", error)
