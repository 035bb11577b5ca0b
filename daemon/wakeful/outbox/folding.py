"""Turns what happened into alerts: the events of the outbox are folded until none is left that can be.

Invariant: the occurrences of all alerts add up to the events, under any number of dispatchers and crashes. A key that
somebody else holds stops no other key: it is left out for the rest of the pass (I2, I21).
"""

from __future__ import annotations

from functools import partial
from typing import Final

from wakeful.errors import StoreBusy
from wakeful.outbox.message import opening_message
from wakeful.store import outbox
from wakeful.store.database import Database
from wakeful.store.outbox import Folded
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import ALERT_FOLDED, ALERT_OPENED

BATCH: Final = 500


async def fold_events(database: Database, sinks: tuple[str, ...], telemetry: Telemetry) -> int:
    """Fold all events that can be; gives how many. Raises StoreUnavailable in an outage."""
    held: list[str] = []
    folded = 0
    while True:
        try:
            done = await _fold(database, sinks, telemetry, held)
        except StoreBusy:
            done = await _fold_one_by_one(database, sinks, telemetry, held)
        held.extend(done.held)
        folded += done.rows
        if not done.rows and not done.held:
            return folded


async def _fold(
    database: Database,
    sinks: tuple[str, ...],
    telemetry: Telemetry,
    held: list[str],
    only: tuple[str, ...] | None = None,
) -> Folded:
    compose = partial(opening_message, redactor=telemetry.redactor)
    done = await outbox.fold(database, compose, sinks, limit=BATCH, leave_out=held, only=only)
    for alert in done.opened:
        telemetry.emit(
            ALERT_OPENED,
            alert_id=alert.alert_id,
            kind=alert.kind,
            subject=alert.subject,
            title=alert.title,
        )
    for joined in done.joined:
        telemetry.emit(ALERT_FOLDED, alert_id=joined.alert_id, kind=joined.kind, count=joined.added)
    return done


async def _fold_one_by_one(
    database: Database, sinks: tuple[str, ...], telemetry: Telemetry, held: list[str]
) -> Folded:
    """Fold key by key, so that the one in the way is found: somebody is opening its alert and has not committed."""
    busy: list[str] = []
    rows = 0
    for key in await outbox.find_unfolded_keys(database, limit=BATCH, leave_out=held):
        try:
            done = await _fold(database, sinks, telemetry, held, only=(key,))
        except StoreBusy:
            busy.append(key)
            continue
        busy.extend(done.held)
        rows += done.rows
    return Folded(opened=(), joined=(), held=tuple(busy), rows=rows)
