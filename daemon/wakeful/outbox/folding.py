"""Turns what happened into alerts: the events of the outbox are folded until none is left that can be.

Invariant: the occurrences of all alerts add up to the events, under any number of dispatchers and crashes. A key that
somebody else holds stops no other key: it is left out for the rest of the pass (I2, I21).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from wakeful.errors import StoreBusy
from wakeful.store import outbox
from wakeful.store.database import Database
from wakeful.store.outbox import Folded
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import ALERT_FOLDED, ALERT_OPENED

BATCH: Final = 500


async def fold_events(database: Database, telemetry: Telemetry, *, first_wait: float = 0.0) -> int:
    """Fold all events that can be; gives how many. Raises StoreUnavailable in an outage."""
    folding = _Folding(database=database, telemetry=telemetry, first_wait=first_wait)
    held: list[str] = []
    folded = 0
    while True:
        try:
            done = await folding.fold(held)
        except StoreBusy:
            done = await folding.fold_one_by_one(held)
        held.extend(done.held)
        folded += done.rows
        if not done.rows and not done.held:
            return folded


@dataclass(frozen=True, slots=True, kw_only=True)
class _Folding:
    database: Database
    telemetry: Telemetry
    first_wait: float

    async def fold(self, held: list[str], only: tuple[str, ...] | None = None) -> Folded:
        """Fold one batch, of all keys but those in `held`, or of some."""
        done = await outbox.fold(
            self.database, limit=BATCH, first_wait=self.first_wait, leave_out=held, only=only
        )
        for alert in done.opened:
            self.telemetry.emit(
                ALERT_OPENED,
                alert_id=alert.alert_id,
                kind=alert.kind,
                subject=alert.subject,
                title=alert.title,
            )
        for joined in done.joined:
            self.telemetry.emit(ALERT_FOLDED, alert_id=joined.alert_id, kind=joined.kind, count=joined.added)
        return done

    async def fold_one_by_one(self, held: list[str]) -> Folded:
        """Fold key by key, so that the one in the way is found: somebody is opening its alert and has not committed."""
        busy: list[str] = []
        rows = 0
        for key in await outbox.find_unfolded_keys(self.database, limit=BATCH, leave_out=held):
            try:
                done = await self.fold(held, only=(key,))
            except StoreBusy:
                busy.append(key)
                continue
            busy.extend(done.held)
            rows += done.rows
        return Folded(opened=(), joined=(), held=tuple(busy), rows=rows)
