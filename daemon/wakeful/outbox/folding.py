"""Turns what happened into alerts: the events of the outbox are folded, turn by turn, until none is left that can be.

Invariant: the occurrences of all alerts add up to the events, under any number of dispatchers and crashes. A key that
somebody else holds stops no other key: it is left out for the rest of the pass (I2, I21). Nor does one that can't be
folded: its events are counted in an alert that says so, and where not even that goes, it is left alone for a while.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final

from wakeful.errors import StoreBusy, StoreUnavailable
from wakeful.store import outbox
from wakeful.store.database import Database
from wakeful.store.outbox import Folded
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import ALERT_FOLDED, ALERT_OPENED, ALERT_UNFOLDED

BATCH: Final = 500
BATCHES: Final = 20  # of one turn: after a second or so people hear of what is folded, and a stop is seen
LEFT_ALONE_SECONDS: Final = 600.0
_MOST_LEFT_ALONE: Final = 1000
_TIMED_OUT: Final = "[57014]"


async def fold_events(database: Database, telemetry: Telemetry, *, first_wait: float = 0.0) -> int:
    """Fold the events that can be, a turn's worth; gives how many. Raises StoreUnavailable in an outage."""
    return await Folding(database=database, telemetry=telemetry, first_wait=first_wait).fold()


@dataclass(frozen=True, slots=True, kw_only=True)
class Folding:
    """Who folds. `alone`: keys that nothing can be done with, by when they are tried again (monotonic seconds)."""

    database: Database
    telemetry: Telemetry
    first_wait: float
    alone: dict[str, float] = field(default_factory=dict)

    async def fold(self) -> int:
        """Fold the events that can be, a turn's worth; gives how many. Raises StoreUnavailable in an outage."""
        held = self._left_alone()
        folded = 0
        for _ in range(BATCHES):
            done = await self._fold_some(held)
            held.extend(done.held)
            folded += done.rows
            if not done.rows and not done.held:
                break
        return folded

    async def _fold_some(self, held: list[str]) -> Folded:
        try:
            return await self._fold_batch(held)
        except StoreBusy:
            return await self._fold_one_by_one(held)
        except StoreUnavailable:
            raise
        except Exception:  # noqa: BLE001 -- which key it was, and so what is told, is found one by one
            return await self._fold_one_by_one(held)

    async def _fold_batch(self, held: list[str], only: tuple[str, ...] | None = None) -> Folded:
        """Fold one batch, of all keys but those in `held`, or of some."""
        done = await outbox.fold(
            self.database, limit=BATCH, first_wait=self.first_wait, leave_out=held, only=only
        )
        self._tell(done)
        return done

    async def _fold_one_by_one(self, held: list[str]) -> Folded:
        """Fold key by key, so that the one in the way is found: somebody is opening its alert and has not committed."""
        busy: list[str] = []
        rows = 0
        for key in await outbox.find_unfolded_keys(self.database, limit=BATCH, leave_out=held):
            try:
                done = await self._fold_batch(held, only=(key,))
            except StoreBusy as error:
                busy.append(key)
                if str(error).endswith(_TIMED_OUT):  # each pass would wait as long for it again
                    self._leave_alone(key)
                    self.telemetry.emit(ALERT_UNFOLDED, dedupe_key=key, rows=0, error=error)
                continue
            except StoreUnavailable:
                raise
            except Exception as error:  # noqa: BLE001 -- one that can't be folded must not keep the others from people
                done = await self._set_aside(key, error)
            busy.extend(done.held)
            rows += done.rows
        return Folded(opened=(), joined=(), held=tuple(busy), rows=rows)

    async def _set_aside(self, key: str, error: Exception) -> Folded:
        """Count the events of a key that can't be folded, and let people hear of them all the same."""
        done = Folded(opened=(), joined=(), held=(key,), rows=0)
        try:
            done = await outbox.set_aside(self.database, key, limit=BATCH, first_wait=self.first_wait)
        except StoreBusy:
            return done
        except StoreUnavailable:
            raise
        except Exception:  # noqa: BLE001 -- it is told below by its first error, and tried again later
            self._leave_alone(key)
        self.telemetry.emit(ALERT_UNFOLDED, dedupe_key=key, rows=done.rows, error=error)
        self._tell(done)
        return done

    def _left_alone(self) -> list[str]:
        now = time.monotonic()
        for key in [key for key, until in self.alone.items() if until <= now]:
            del self.alone[key]
        return list(self.alone)

    def _leave_alone(self, key: str) -> None:
        if len(self.alone) < _MOST_LEFT_ALONE:
            self.alone[key] = time.monotonic() + LEFT_ALONE_SECONDS

    def _tell(self, done: Folded) -> None:
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
