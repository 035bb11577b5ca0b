"""Rules as tests need them: one look at what they watch, and the alerts that they have made."""

from __future__ import annotations

import json

import anyio

from support.databases import Connection
from wakeful.core.alert_settings import RuleSettings
from wakeful.outbox.rules import RULES
from wakeful.outbox.rules.evaluating import Evaluating
from wakeful.store.database import Database

MINUTE = 60.0


def evaluating(store: Database, **settings: RuleSettings) -> Evaluating:
    """All rules, as they are set by these sections."""
    return Evaluating(database=store, telemetry=store.telemetry, rules=RULES, settings=settings)


async def evaluate(store: Database, **settings: RuleSettings) -> None:
    """One look at all that they watch."""
    await evaluating(store, **settings).evaluate(anyio.Event())


async def titles(sql: Connection, state: str = "open") -> list[str]:
    """What the alerts in this state say."""
    rows = await sql.fetch("select title from wakeful.alert where state = $1 order by alert_id", state)
    return [row["title"] for row in rows]


async def keys(sql: Connection, state: str = "open") -> list[str]:
    """The keys of the alerts in this state."""
    rows = await sql.fetch("select dedupe_key from wakeful.alert where state = $1 order by dedupe_key", state)
    return [row["dedupe_key"] for row in rows]


async def details(sql: Connection, key: str) -> dict[str, object]:
    """What is told beside the title of the alert with this key."""
    text = await sql.fetchval("select body::text from wakeful.alert where dedupe_key = $1", key)
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


async def age(sql: Connection, seconds: float) -> None:
    """Let what waits have been due for longer, and what was rescued be longer ago."""
    for table, column in (
        ("ready", "run_after"),
        ("lane_head", "since"),
        ("lane", "unserved_since"),
        ("rescue", "rescued_at"),
    ):
        await sql.execute(
            f"update wakeful.{table} set {column} = {column} - make_interval(secs => $1)", seconds
        )
