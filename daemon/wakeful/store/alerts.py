"""Alerts as messages are made of them: a transaction that holds sinks and alerts, one method a statement.

Invariant: what is said, what is noted of it and when it is looked at next are committed together. A sink or an alert
that somebody else holds is left, not waited for; only a pause that a receiver asked for is written in any case. What is
said, and when, is `outbox.policy`'s.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from wakeful.store.database import Database, Transaction

LOCK_WAIT_SECONDS: Final = 0.2
SAMPLES: Final = 5
# So often it is tried to write an alert, and then without its details: `put_off_alerts.sql` has the same number.
UNTOLD_WITH_DETAILS: Final = 3
# So often in a row, and for so long, an address refuses before it is closed: one that is being deployed does less.
REFUSALS_THAT_CLOSE: Final = 10
REFUSED_SECONDS_THAT_CLOSE: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """An alert as it is now, without its details. `now`: the database's time; `muted_until`: told to nobody before.

    `acknowledged`: somebody took it on, also if it is over now; `untold`: how often it could not be written.
    """

    alert_id: int
    dedupe_key: str
    kind: str
    job_type: str | None
    fingerprint: str | None
    title: str
    severity: str
    subject: str | None
    job_id: UUID | None
    occurrences: int
    first_seen: datetime
    last_seen: datetime
    lasting: bool
    state: str
    opened_at: datetime
    resolved_at: datetime | None
    resolved_reason: str | None
    queue: str | None
    job_owner: str | None
    muted_until: datetime | None
    now: datetime
    acknowledged: bool = False
    untold: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What a sink was told of an alert last, and how many occurrences of it; `pending`: a message is under way."""

    told_as: str | None
    told_at: datetime | None
    occurrences: int
    held_until: datetime | None
    pending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkState:
    """A sink that is held: its window, the cards made in it, and the messages that wait for it (at most 100)."""

    window_from: datetime
    window_cards: int
    waiting: int
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What a message says beside the alert itself: its details and latest occurrences, both JSON text.

    `payload_text`: the beginning of the latest job's payload as JSON, secret paths hidden; None where it is not shown.
    """

    body_text: str
    samples_text: str
    payload_text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message that is to be sent. `kind` such as alert.opened; `body` JSON text.

    `alert_id` is None for a digest, which `tells` of these alerts.
    """

    alert_id: int | None
    sink: str
    kind: str
    body: str
    tells: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stale:
    """A message that has waited too long; the alerts that it tells of."""

    delivery_id: UUID
    sink: str
    body: str
    tells: tuple[int, ...]


class Making:
    """One transaction in which messages are made; made by `making` only."""

    __slots__ = ("_transaction",)

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def lock_sinks(self, sinks: Sequence[str]) -> dict[str, SinkState]:
        """Hold those sinks that nobody else holds; a row is made for one that has none."""
        await self._transaction.fetch("keep_sinks", sinks)
        rows = await self._transaction.fetch("lock_sinks", sinks)
        return {
            row["sink"]: SinkState(
                window_from=row["window_from"],
                window_cards=row["window_cards"],
                waiting=row["waiting"],
                now=row["now"],
            )
            for row in rows
        }

    async def take_alerts(self, limit: int) -> list[Looked]:
        """Hold the alerts of which there may be something to say."""
        rows = await self._transaction.fetch("take_alerts", limit)
        return [Looked(**dict(row)) for row in rows]

    async def has_other_sinks(self, sinks: Sequence[str]) -> bool:
        """Whether a live instance has a sink that is not among these."""
        row = await self._transaction.fetchrow("has_other_sinks", sinks)
        assert row is not None, "a select without a from clause returns its row"
        return bool(row["others"])

    async def read_notices(
        self, alerts: Sequence[int], sinks: Sequence[str]
    ) -> dict[tuple[int, str], Notice]:
        """What the sinks were told, by alert and sink."""
        rows = await self._transaction.fetch("read_notices", alerts, sinks)
        return {
            (row["alert_id"], row["sink"]): Notice(
                told_as=row["told_as"],
                told_at=row["told_at"],
                occurrences=row["occurrences"],
                held_until=row["held_until"],
                pending=row["pending"],
            )
            for row in rows
        }

    async def read_stories(self, alerts: Sequence[int], *, payloads: bool) -> dict[int, Story]:
        """Details and latest occurrences of alerts, with or without what the latest jobs were about."""
        rows = await self._transaction.fetch("read_samples", alerts, SAMPLES, payloads) if alerts else []
        return {
            row["alert_id"]: Story(
                body_text=row["body_text"],
                samples_text=row["samples_text"],
                payload_text=row["payload_text"],
            )
            for row in rows
        }

    async def open(self, messages: Sequence[Message]) -> None:
        """Let messages be sent."""
        if messages:
            columns = [
                (one.alert_id, one.sink, one.kind, one.body, f"{{{','.join(map(str, one.tells))}}}")
                for one in messages
            ]
            await self._transaction.fetch(
                "open_deliveries", *(list(column) for column in zip(*columns, strict=True))
            )

    async def note(self, notices: Mapping[tuple[int, str], Notice]) -> None:
        """Note what sinks are told, or that it waits."""
        if notices:
            columns = [
                (alert_id, sink, one.told_as, one.told_at, one.occurrences, one.held_until)
                for (alert_id, sink), one in notices.items()
            ]
            await self._transaction.fetch(
                "keep_notices", *(list(column) for column in zip(*columns, strict=True))
            )

    async def put_off(self, times: Mapping[int, datetime | None]) -> None:
        """Say when alerts are looked at next."""
        if times:
            await self._transaction.fetch("put_off_alerts", list(times), list(times.values()))

    async def set_aside(self, alert_id: int | None = None) -> tuple[int, str] | None:
        """Note that an alert, or the first that is due, could not be written once more; gives its number and kind."""
        row = await self._transaction.fetchrow("note_untold", alert_id)
        return None if row is None else (row["alert_id"], row["kind"])

    async def count(self, windows: Mapping[str, tuple[datetime, int]]) -> None:
        """Note the windows of sinks and the cards made in them."""
        if windows:
            begun, cards = zip(*windows.values(), strict=True)
            await self._transaction.fetch("note_cards", list(windows), list(begun), list(cards))

    async def take_stale(self, sinks: Sequence[str], seconds: float, limit: int) -> list[Stale]:
        """Hold the messages that have waited too long and are not being sent now, the oldest first."""
        rows = await self._transaction.fetch("take_stale", sinks, seconds, limit)
        return [
            Stale(
                delivery_id=row["delivery_id"], sink=row["sink"], body=row["body"], tells=tuple(row["tells"])
            )
            for row in rows
        ]

    async def merge(self, deliveries: Sequence[UUID]) -> None:
        """Mark messages as told in a digest."""
        await self._transaction.fetch("merge_deliveries", deliveries)


@asynccontextmanager
async def making(database: Database) -> AsyncIterator[Making]:
    """Give a transaction in which messages are made. Raises StoreBusy where it would have to wait; nothing is done."""
    async with database.transaction(lock_timeout=LOCK_WAIT_SECONDS) as transaction:
        yield Making(transaction)


async def find_stale(database: Database, sinks: Sequence[str], seconds: float) -> list[str]:
    """Those of `sinks` for which several messages have waited too long."""
    return [row["sink"] for row in await database.fetch("find_stale", sinks, seconds)]


async def open_sinks(database: Database, sinks: Sequence[str]) -> list[str]:
    """Try again with sinks that are closed; gives those that were."""
    return [row["sink"] for row in await database.fetch("open_sinks", sinks)]


async def closed_sinks(database: Database, sinks: Sequence[str]) -> dict[str, str | None]:
    """Those that are closed, with the hash of the address that was, if that is known."""
    rows = await database.fetch("list_closed_sinks", sinks)
    return {row["sink"]: row["closed_address"] for row in rows}


async def close_sink(database: Database, sink: str, reason: str, *, address: str | None) -> bool:
    """Send nothing more to a sink; False where that is so already, or somebody holds it just now."""
    return bool(await database.fetch("close_sink", sink, reason, address))


async def count_refusal(database: Database, sink: str, reason: str, *, address: str | None) -> bool:
    """Note that a sink's address has refused once more; True where it was closed for it."""
    closed = await database.fetchval(
        "count_refusal", sink, reason, address, REFUSALS_THAT_CLOSE, REFUSED_SECONDS_THAT_CLOSE
    )
    return bool(closed)


async def pause_sink(database: Database, sink: str, seconds: float) -> None:
    """Send nothing to a sink for a while. Raises StoreBusy, with nothing done, where somebody holds it for long."""
    async with database.transaction(lock_timeout=LOCK_WAIT_SECONDS) as transaction:
        await transaction.fetch("pause_sink", sink, seconds)
