"""Claims whose reply was lost: what they took, if anything, goes back as if it had never been claimed (I8).

Invariant: what was claimed is asked for until such a claim can't commit any more. A row that the database refuses to
move stays behind alone, for the backstop; the others of its claim do not wait for it (R5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wakeful.errors import DataRefused
from wakeful.runtime.halving import in_halves, tell_stranded
from wakeful.runtime.holdings import Doubt, Holdings
from wakeful.runtime.refusals import Refusals
from wakeful.store import jobs as store
from wakeful.store import upkeep
from wakeful.store.database import Database
from wakeful.store.jobs import Settlement
from wakeful.store.upkeep import OwnedClaim
from wakeful.telemetry.events import CLAIM_FAILED

_NO_LIMIT = 2**31 - 1  # nothing is lost here


async def release_doubts(database: Database, holdings: Holdings, refusals: Refusals) -> None:
    """Give back what claims with lost replies took. Raises StoreUnavailable."""
    for doubt in holdings.doubts():
        try:
            released, locked = await store.release_claim(
                database, doubt.lane_id, doubt.token, first=doubt.first
            )
        except DataRefused as error:
            if refusals.is_news(("doubt", doubt.token), error):
                database.telemetry.emit(CLAIM_FAILED, error=str(error))
            await _Apart(database, doubt, refusals).release()
            continue
        if released and not locked:
            holdings.resolve(doubt)  # a token is one statement's: it took nothing else


@dataclass(frozen=True, slots=True)
class _Apart:
    """The rows of a claim that can't go back all at once; asked for again like one that may still commit."""

    database: Database
    doubt: Doubt
    refusals: Refusals

    async def release(self) -> None:
        """Give back all but what is refused by itself."""
        rows = await upkeep.find_claimed(
            self.database, self.doubt.lane_id, self.doubt.token, first=self.doubt.first
        )
        await in_halves(rows, self._write, self._refused)

    async def _write(self, rows: Sequence[OwnedClaim]) -> None:
        back = [
            Settlement(pos=row.pos, claim=row.claim, verb="put_back", reason=None, entry=None, delay=0.0)
            for row in rows
        ]
        await store.settle(self.database, self.doubt.lane_id, back, lost_limit=_NO_LIMIT)

    def _refused(self, row: OwnedClaim, error: DataRefused) -> None:
        if self.refusals.is_news(("row", row.job_id), error):
            tell_stranded(self.database.telemetry, "release_claim", str(row.job_id), error)
