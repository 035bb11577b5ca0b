"""Alerts as people look at them and change them by hand; changes go through public functions, which keep the audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from wakeful.store.database import Database, Record

# A row as its statement gives it; JSON columns are text.
AlertRow = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What a mute names; None for any, but not for all four."""

    kind: str | None = None
    job_type: str | None = None
    queue: str | None = None
    subject: str | None = None


async def list_alerts(
    database: Database,
    *,
    states: Sequence[str] | None,
    kinds: Sequence[str] | None,
    job_types: Sequence[str] | None,
    limit: int,
) -> list[AlertRow]:
    """Alerts, those that are not resolved first, then the latest; None filters nothing."""
    return _rows(await database.fetch("list_alerts", states, kinds, job_types, limit))


async def show_alert(database: Database, alert_id: int) -> AlertRow | None:
    """Everything about one alert, with its messages; None: there is none."""
    row = await database.fetchrow("show_alert", alert_id)
    return None if row is None else dict(row)


async def list_occurrences(database: Database, alert_id: int, limit: int) -> list[AlertRow]:
    """Its latest occurrences."""
    return _rows(await database.fetch("list_occurrences", alert_id, limit))


async def list_mutes(database: Database) -> list[AlertRow]:
    """What nobody is told of just now."""
    return _rows(await database.fetch("list_mutes"))


async def acknowledge(database: Database, alert_id: int) -> bool:
    """Take an alert on; False: it is not open."""
    return bool(await database.fetchval("acknowledge_alert", alert_id))


async def resolve(database: Database, alert_id: int, reason: str | None) -> bool:
    """End an alert; False: it has ended, or was never there."""
    return bool(await database.fetchval("resolve_alert", alert_id, reason))


async def resend(database: Database, *, alert_id: int | None, sink: str | None) -> int:
    """Send once more what was given up, about an alert or to a sink; gives how many."""
    number = await database.fetchval("resend_alerts", alert_id, sink)
    assert isinstance(number, int), "the function gives a number"
    return number


async def open_sink(database: Database, sink: str) -> bool:
    """Let a sink that was closed be tried again; False: it was not closed, or somebody holds it just now."""
    return bool(await database.fetch("open_sinks", [sink]))


async def mute(database: Database, named: Named, *, seconds: float, reason: str) -> tuple[int, datetime]:
    """Tell nobody of what fits all that is named; gives the mute's number and its end. Raises OptionRefused."""
    row = await database.fetchrow(
        "mute_alerts", seconds, reason, named.kind, named.job_type, named.queue, named.subject
    )
    assert row is not None, "a select without a where clause returns its row"
    return row["mute_id"], row["until"]


async def unmute(database: Database, mute_id: int) -> bool:
    """Take a mute back; False: it is over, or was never there."""
    return bool(await database.fetchval("unmute_alerts", mute_id))


def _rows(records: Sequence[Record]) -> list[AlertRow]:
    return [dict(record) for record in records]
