"""A digest is a message of each alert that it names: nothing later about one of them overtakes it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.counted import counted
from support.databases import ClonedDatabase, Connection
from support.dispatching import Heard, alert, composed, heard, pass_time, store_of, take
from wakeful.core.alert_settings import AlertSettings, RouteSettings
from wakeful.outbox.composing import Composing
from wakeful.outbox.policy import Policy
from wakeful.store import outbox
from wakeful.store.database import Database

STORMY = Policy(alerts=AlertSettings(), routes={"hook": RouteSettings(most=3)})
HOUR = 3600.0


@pytest.fixture
def said() -> Heard:
    return heard()


@pytest.fixture
async def store(db: ClonedDatabase, said: Heard) -> AsyncIterator[Database]:
    async with store_of(db, said) as store:
        yield store


async def look(store: Database, said: Heard, sql: Connection, *, after: float) -> int:
    """Let time pass, and make the messages that are due; the sink takes none. Gives how many were made."""
    await pass_time(sql, after)
    return await composed(store, said, "hook", policy=STORMY)


async def types(sql: Connection) -> list[str]:
    """Let the sink take what waits; gives of what types it was."""
    messages: list[dict[str, Any]] = await take(sql)
    return [one["type"] for one in messages]


async def storm(store: Database, said: Heard, sql: Connection) -> int:
    """Five alerts, of three of which the sink takes a card; the digest of the others waits. Gives one that it names."""
    for key in "abcde":
        await alert(sql, key)
    await look(store, said, sql, after=0)
    await look(store, said, sql, after=11)
    assert await types(sql) == ["alert.opened"] * 3
    assert await look(store, said, sql, after=61) == 1
    found: int = await sql.fetchval("select max(alert_id) from wakeful.alert")
    return found


async def test_the_end_of_an_alert_waits_for_the_digest_that_says_that_it_began(
    store: Database, said: Heard, sql: Connection
) -> None:
    named = await storm(store, said, sql)
    await sql.fetchval("select wakeful.resolve($1)", named)

    assert await look(store, said, sql, after=0) == 0
    assert await look(store, said, sql, after=11) == 0
    assert await types(sql) == ["alert.digest"]
    assert await look(store, said, sql, after=11) == 1
    assert await types(sql) == ["alert.resolved"]


async def test_an_alert_that_the_waiting_digest_does_not_name_waits_for_nothing(
    store: Database, said: Heard, sql: Connection
) -> None:
    await storm(store, said, sql)
    await sql.fetchval("select wakeful.resolve(1)")

    assert await look(store, said, sql, after=61) == 1
    assert sorted(await types(sql)) == ["alert.digest", "alert.resolved"]


async def test_a_digest_that_was_given_up_holds_nothing_up(
    store: Database, said: Heard, sql: Connection
) -> None:
    named = await storm(store, said, sql)
    await sql.fetchval("select wakeful.resolve($1)", named)
    (digest,) = await outbox.lease(store, "hook", 4, instance_id=1, seconds=60)
    await outbox.give_up(store, digest, "413 Content Too Large")

    assert await look(store, said, sql, after=61) == 1
    assert await types(sql) == ["alert.resolved"]


@pytest.mark.case("F78")
async def test_what_was_merged_for_its_age_is_still_before_what_follows(
    store: Database, said: Heard, sql: Connection
) -> None:
    named = await storm(store, said, sql)
    await alert(sql, "f")
    await look(store, said, sql, after=0)
    assert await look(store, said, sql, after=11) == 1
    composing = Composing(database=store, telemetry=said.telemetry, policy=STORMY, sinks=("hook",))
    await pass_time(sql, HOUR)
    assert await composing.merge_stale() == 2
    last: int = await sql.fetchval("select max(alert_id) from wakeful.alert")
    for one in (named, last):
        await sql.fetchval("select wakeful.resolve($1)", one)

    assert await look(store, said, sql, after=0) == 0
    assert await types(sql) == ["alert.digest"]
    assert await look(store, said, sql, after=11) == 2
    assert await types(sql) == ["alert.resolved"] * 2


async def test_where_nothing_is_old_merging_asks_one_question(db: ClonedDatabase, said: Heard) -> None:
    async with counted(db.dsn, said.telemetry) as store:
        composing = Composing(database=store, telemetry=said.telemetry, policy=STORMY, sinks=("hook",))

        assert await composing.merge_stale() == 0
        assert store.asked == ["find_stale"]
