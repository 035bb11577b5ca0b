"""Conditions that rules watch, in the database: what holds now, and the alerts of what holds and of what has ended.

Invariant: one unresolved alert a key, whoever says it and how often; nothing is appended to the outbox, so that
occurrences count events only. An alert that somebody else holds is not waited for. Instances whose settings differ end
no alert of each other's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wakeful.store.database import Database
from wakeful.store.outbox import LOCK_WAIT_SECONDS, Opened, Resolved


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Something that a rule's statement found: `what` tells it from its like, `value` is compared with the threshold.

    `details_text` is a JSON object.
    """

    what: str
    value: float
    details_text: str
    queue: str | None = None
    job_type: str | None = None
    subject: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition that holds: an alert, or what it will be. `details_text` is a JSON object."""

    key: str
    title: str
    severity: str
    job_type: str | None
    subject: str | None
    details_text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What one look before the rules finds: the rules that would find nothing, and what has an alert already.

    `critical`: the critical types are not those that the settings of live instances name.
    """

    idle: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()
    keys: frozenset[str] = frozenset()
    critical: bool = True


async def look(database: Database, *, long_transaction: float) -> Sight:
    """Look once; `long_transaction` is from how many seconds on a transaction is too long."""
    row = await database.fetchrow("look_at_rules", long_transaction)
    assert row is not None, "its from clause has one row"
    return Sight(
        idle=frozenset(row["idle"]),
        kinds=frozenset(row["kinds"]),
        keys=frozenset(row["keys"]),
        critical=row["critical"],
    )


async def find(database: Database, statement: str, threshold: float) -> list[Found]:
    """What a rule's statement finds at or beyond a threshold."""
    return [
        Found(
            what=row["what"],
            queue=row["queue"],
            job_type=row["job_type"],
            subject=row["subject"],
            value=row["value"],
            details_text=row["details"],
        )
        for row in await database.fetch(statement, threshold)
    ]


async def keep_critical(database: Database) -> None:
    """Let people hear of the first failed attempt of the types that live instances name, and of no others."""
    await database.fetch("keep_critical_types")


async def hold(database: Database, kind: str, conditions: Sequence[Condition], *, rules: str) -> list[Opened]:
    """Say that conditions hold now by the settings whose hash is `rules`; gives the alerts that are new.

    Raises StoreBusy, with nothing done. No two conditions may have one key.
    """
    columns = [
        (one.key, one.title, one.severity, one.job_type, one.subject, one.details_text) for one in conditions
    ]
    if not columns:
        return []
    async with database.transaction(lock_timeout=LOCK_WAIT_SECONDS) as transaction:
        rows = await transaction.fetch(
            "raise_conditions", kind, *(list(column) for column in zip(*columns, strict=True)), rules
        )
    return [
        Opened(
            alert_id=row["alert_id"],
            dedupe_key=row["dedupe_key"],
            kind=kind,
            title=row["title"],
            subject=row["subject"],
        )
        for row in rows
        if row["opened"]
    ]


async def end(database: Database, kinds: Sequence[str], settle: float, *, rules: str) -> list[Resolved]:
    """End the alerts of these rules whose condition has not held for `settle` seconds, by any live settings."""
    return [
        Resolved(alert_id=row["alert_id"], kind=row["kind"], occurrences=row["occurrences"])
        for row in await database.fetch("end_conditions", kinds, settle, rules)
    ]
