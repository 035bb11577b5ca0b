"""The outbox in the database: folding events into alerts, and leasing and marking what is sent: one method a statement.

Invariant: an event and its alert's count change in one transaction; what a lease allows is known by the number of the
try. Making messages is `store.alerts`'; order, retries and sending are `wakeful.outbox`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from wakeful.store.database import Database, Record

LOCK_WAIT_SECONDS: Final = 0.2
MOST_DEATHS: Final = 50_000  # are read to see whose jobs are gone: a second of the server
DIGEST: Final = "digest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What a look at the outbox finds: whether events wait to be folded, alerts to be looked at, and the sinks with
    something due.

    `next_in`: seconds until there is something more to do (None: nothing is known).
    """

    unfolded: bool
    looking: bool
    due: frozenset[str]
    next_in: float | None


NOTHING_SEEN: Final = Sight(unfolded=False, looking=False, due=frozenset(), next_in=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """An alert that was opened."""

    alert_id: int
    dedupe_key: str
    kind: str
    title: str
    subject: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """Events that were added to an alert that was open already."""

    alert_id: int
    kind: str
    added: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """What one batch did. `held` are the keys that somebody else has locked; `rows` counts the events folded."""

    opened: tuple[Opened, ...]
    joined: tuple[Joined, ...]
    held: tuple[str, ...]
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One try of one message to one sink: id and body are the same at every try; `attempt` counts from 1.

    `alert_id` is None for a digest of several, whose `kind` is "digest". `excused`: tries before it that do not count;
    `bare`: its details could not be sent, so that it is a text without them.
    """

    delivery_id: UUID
    alert_id: int | None
    kind: str
    attempt: int
    body: str
    excused: int = 0
    bare: bool = False


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
    return Sight(
        unfolded=row["unfolded"],
        looking=row["looking"],
        due=frozenset(row["due"]),
        next_in=row["next_s"],
    )


async def fold(
    database: Database,
    *,
    limit: int,
    first_wait: float = 0.0,
    leave_out: Sequence[str] = (),
    only: Sequence[str] | None = None,
) -> Folded:
    """Fold at most `limit` events; a new alert is looked at after `first_wait` seconds.

    Raises StoreBusy, with nothing done, where an alert that another transaction is opening stands in the way.
    """
    async with database.transaction(lock_timeout=LOCK_WAIT_SECONDS) as transaction:
        rows = await transaction.fetch("fold_alerts", limit, leave_out, only, first_wait)
    return Folded(
        opened=tuple(_opened(row) for row in rows if row["opened"]),
        joined=tuple(
            Joined(alert_id=row["alert_id"], kind=row["kind"], added=row["added"])
            for row in rows
            if not row["opened"] and not row["held"]
        ),
        held=tuple(row["dedupe_key"] for row in rows if row["held"]),
        rows=sum(row["added"] for row in rows),
    )


async def set_aside(database: Database, key: str, *, limit: int, first_wait: float = 0.0) -> Folded:
    """Fold at most `limit` events of a key that can't be folded into an alert that says so; raises as `fold` does."""
    async with database.transaction(lock_timeout=LOCK_WAIT_SECONDS) as transaction:
        rows = await transaction.fetch("set_aside_events", key, limit, first_wait)
    return Folded(
        opened=tuple(_opened(row) for row in rows if row["opened"]),
        joined=tuple(
            Joined(alert_id=row["alert_id"], kind=row["kind"], added=row["added"])
            for row in rows
            if not row["opened"]
        ),
        held=(),
        rows=sum(row["added"] for row in rows),
    )


async def find_unfolded_keys(database: Database, *, limit: int, leave_out: Sequence[str]) -> list[str]:
    """The keys that wait to be folded, oldest first."""
    rows = await database.fetch("find_unfolded_keys", limit, leave_out)
    return [row["dedupe_key"] for row in rows]


async def lease(
    database: Database, sink: str, limit: int, *, instance_id: int, seconds: float, pace: float = 0.0
) -> list[Delivery]:
    """Take at most `limit` due messages of a sink for `seconds`, by the database's clock; with a `pace` one."""
    rows = await database.fetch("lease_deliveries", sink, limit, instance_id, seconds, pace)
    return [
        Delivery(
            delivery_id=row["delivery_id"],
            alert_id=row["alert_id"],
            kind=row["kind"] or DIGEST,
            attempt=row["attempts"],
            body=row["body"],
            excused=row["excused"],
            bare=row["bare"],
        )
        for row in rows
    ]


async def mark_delivered(database: Database, delivery: Delivery, answer: str) -> None:
    """Store that the receiver accepted it."""
    await database.fetch("mark_delivered", delivery.delivery_id, answer)


async def postpone(
    database: Database, delivery: Delivery, reason: str, *, seconds: float, excuse: bool = False
) -> None:
    """Store why this try failed, and when the next is due; `excuse`: it does not count. A later lease is left alone."""
    await database.fetch(
        "postpone_delivery", delivery.delivery_id, delivery.attempt, reason, seconds, int(excuse)
    )


async def make_bare(
    database: Database, delivery: Delivery, reason: str, *, body: str, seconds: float
) -> None:
    """Store that its details can't be sent, and what is sent in their place. A later lease is left alone."""
    await database.fetch("bare_delivery", delivery.delivery_id, delivery.attempt, reason, body, seconds)


async def give_up(database: Database, delivery: Delivery, reason: str) -> None:
    """Store why no more is tried. A later lease is left alone."""
    await database.fetch("give_up_delivery", delivery.delivery_id, delivery.attempt, reason)


async def resolve_quiet(database: Database, seconds: float) -> list[Resolved]:
    """End the alerts that have been quiet for `seconds`."""
    return _resolved(await database.fetch("resolve_quiet_alerts", seconds))


async def resolve_gone(database: Database, *, most: int = MOST_DEATHS) -> list[Resolved]:
    """End the alerts about deaths of which no job is dead any more; those of `most` deaths in all, the small first."""
    return _resolved(await database.fetch("resolve_gone_alerts", most))


def _resolved(rows: Sequence[Record]) -> list[Resolved]:
    return [
        Resolved(alert_id=row["alert_id"], kind=row["kind"], occurrences=row["occurrences"]) for row in rows
    ]


def _opened(row: Record) -> Opened:
    return Opened(
        alert_id=row["alert_id"],
        dedupe_key=row["dedupe_key"],
        kind=row["kind"],
        title=row["title"],
        subject=row["subject"],
    )
