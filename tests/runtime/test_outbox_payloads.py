"""What a job was about stands in messages only where the configuration asks for it, and never what is secret."""

from __future__ import annotations

import json
from dataclasses import replace
from uuid import UUID

import pytest

from support.databases import ClonedDatabase, Connection
from support.dispatching import AT_ONCE, composed, heard, store_of, take
from support.factories import claim, declare, depart, enqueue
from wakeful.core.alert_settings import AlertSettings
from wakeful.outbox.cards.document import read
from wakeful.outbox.cards.shortening import Room
from wakeful.outbox.cards.telling import facts

SECRET = "4711-geheim-0815"
PAYLOAD = {"place": "가게 9", "card": {"token": SECRET}}
SHOWING = replace(AT_ONCE, alerts=replace(AT_ONCE.alerts, payload=True))


async def told(db: ClonedDatabase, sql: Connection, job_id: UUID, *, showing: bool) -> str:
    """Let a job die; gives the message about it."""
    await claim(sql, job_id)
    await depart(sql, job_id, "refuse", reason="PlaceGone: it is gone")
    said = heard()
    async with store_of(db, said) as store:
        await composed(store, said, "hook", policy=SHOWING if showing else AT_ONCE)
    (message,) = await take(sql)
    return json.dumps(message, ensure_ascii=False)


@pytest.mark.parametrize("showing", [True, False])
async def test_a_payload_is_shown_where_it_is_asked_for_without_its_secret_paths(
    db: ClonedDatabase, sql: Connection, showing: bool
) -> None:
    await declare(sql, "SHOP", secret_paths=["card.token"])
    message = await told(db, sql, (await enqueue(sql, "SHOP", PAYLOAD)).job_id, showing=showing)

    assert SECRET not in message
    assert ("가게 9" in message) is showing
    named = [fact.label for fact in facts(read(message), Room(text=1000, entries=10))]
    assert ("Payload" in named) is showing


async def test_nothing_is_shown_of_a_type_that_nobody_has_declared(
    db: ClonedDatabase, sql: Connection
) -> None:
    message = await told(db, sql, (await enqueue(sql, "UNKNOWN", PAYLOAD)).job_id, showing=True)

    assert json.loads(message)["data"]["payload"] is None
    assert "가게 9" not in message


async def test_of_a_long_one_the_beginning_is_shown(db: ClonedDatabase, sql: Connection) -> None:
    await declare(sql, "SHOP")
    job_id = (await enqueue(sql, "SHOP", {"a": "가" * 100_000})).job_id
    payload = json.loads(await told(db, sql, job_id, showing=True))["data"]["payload"]

    assert payload.startswith('{"a": "가가')
    assert len(payload.encode()) <= 500


def test_no_payload_is_shown_by_default() -> None:
    assert AlertSettings().payload is False
