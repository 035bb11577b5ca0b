"""The outbox in the database: folding events into alerts, and leasing and marking what is sent: one method a statement.

Invariant: an event and its alert's count change in one transaction, together with the messages of a new alert; what a
lease allows is known by the number of the try. Order, retries and sending are `wakeful.outbox`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from wakeful.store.database import Database, Record

LOCK_WAIT_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What a look at the outbox finds: whether events wait to be folded, and the sinks with something due.

    `next_in`: seconds until the next try after those (None: there is none).
    """

    unfolded: bool
    due: frozenset[str]
    next_in: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An alert as it is after folding. `body_text` is a JSON object."""

    alert_id: int
    dedupe_key: str
    kind: str
    job_type: str | None
    fingerprint: str | None
    title: str
    severity: str
    subject: str | None
    body_text: str
    job_id: UUID | None
    occurrences: int
    first_seen: datetime
    last_seen: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """Events that were added to an alert that was open already."""

    alert_id: int
    kind: str
    added: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """What one batch did. `held` are the keys that somebody else has locked; `rows` counts the events folded."""

    opened: tuple[Alert, ...]
    joined: tuple[Joined, ...]
    held: tuple[str, ...]
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One try of one message to one sink: id and body are the same at every try; `attempt` counts from 1."""

    delivery_id: UUID
    alert_id: int
    kind: str
    attempt: int
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """An alert that has ended."""

    alert_id: int
    kind: str
    occurrences: int


async def look(database: Database, sinks: Sequence[str]) -> Sight:
    """See whether there is anything to do for these sinks."""
    row = await database.fetchrow("look_at_outbox", sinks)
    assert row is not None, "a select without a from clause returns its row"
    return Sight(unfolded=row["unfolded"], due=frozenset(row["due"]), next_in=row["next_s"])


async def fold(
    database: Database,
    compose: Callable[[Alert], str],
    sinks: Sequence[str],
    *,
    limit: int,
    leave_out: Sequence[str] = (),
    only: Sequence[str] | None = None,
) -> Folded:
    """Fold at most `limit` events, and open one message a sink, as `compose` writes it, for each new alert.

    Raises StoreBusy, with nothing done, where an alert that another transaction is opening stands in the way.
    """
    async with database.transaction(lock_timeout=LOCK_WAIT_SECONDS) as transaction:
        rows = await transaction.fetch("fold_alerts", limit, leave_out, only)
        opened = tuple(_alert(row) for row in rows if row["opened"])
        if opened and sinks:
            ids = [alert.alert_id for alert in opened]
            await transaction.fetch("open_deliveries", ids, [compose(alert) for alert in opened], sinks)
    return Folded(
        opened=opened,
        joined=tuple(
            Joined(alert_id=row["alert_id"], kind=row["kind"], added=row["added"])
            for row in rows
            if not row["opened"] and not row["held"]
        ),
        held=tuple(row["dedupe_key"] for row in rows if row["held"]),
        rows=sum(row["added"] for row in rows),
    )


async def find_unfolded_keys(database: Database, *, limit: int, leave_out: Sequence[str]) -> list[str]:
    """The keys that wait to be folded, oldest first."""
    rows = await database.fetch("find_unfolded_keys", limit, leave_out)
    return [row["dedupe_key"] for row in rows]


async def lease(
    database: Database, sink: str, limit: int, *, instance_id: int, seconds: float
) -> list[Delivery]:
    """Take at most `limit` due messages of a sink for `seconds`, by the database's clock."""
    rows = await database.fetch("lease_deliveries", sink, limit, instance_id, seconds)
    return [
        Delivery(
            delivery_id=row["delivery_id"],
            alert_id=row["alert_id"],
            kind=row["kind"],
            attempt=row["attempts"],
            body=row["body"],
        )
        for row in rows
    ]


async def mark_delivered(database: Database, delivery: Delivery, answer: str) -> None:
    """Store that the receiver accepted it."""
    await database.fetch("mark_delivered", delivery.delivery_id, answer)


async def postpone(database: Database, delivery: Delivery, reason: str, *, seconds: float) -> None:
    """Store why this try failed, and when the next one is due. A later lease is left alone."""
    await database.fetch("postpone_delivery", delivery.delivery_id, delivery.attempt, reason, seconds)


async def give_up(database: Database, delivery: Delivery, reason: str) -> None:
    """Store why no more is tried. A later lease is left alone."""
    await database.fetch("give_up_delivery", delivery.delivery_id, delivery.attempt, reason)


async def resolve_quiet(database: Database, seconds: float) -> list[Resolved]:
    """End the alerts that have been quiet for `seconds`."""
    rows = await database.fetch("resolve_quiet_alerts", seconds)
    return [
        Resolved(alert_id=row["alert_id"], kind=row["kind"], occurrences=row["occurrences"]) for row in rows
    ]


def _alert(row: Record) -> Alert:
    return Alert(
        alert_id=row["alert_id"],
        dedupe_key=row["dedupe_key"],
        kind=row["kind"],
        job_type=row["job_type"],
        fingerprint=row["fingerprint"],
        title=row["title"],
        severity=row["severity"],
        subject=row["subject"],
        body_text=row["body_text"],
        job_id=row["job_id"],
        occurrences=row["occurrences"],
        first_seen=row["first_seen"],
        last_seen=row["last_seen"],
    )
