"""Folding: each event counted once, by any number of dispatchers, and no key in the way of another (I2, I21)."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from support import factories
from support.databases import ClonedDatabase, Connection
from support.dispatching import (
    alert,
    composed,
    counts_add_up,
    dispatching,
    heard,
    make_due,
    store_of,
    unsent,
    webhooks,
)
from support.eventually import eventually
from support.receiver import running_receiver
from wakeful.core.settings import OutboxSettings
from wakeful.outbox.folding import fold_events
from wakeful.store import outbox
from wakeful.telemetry.events import ALERT_FOLDED, ALERT_OPENED, ALERT_RESOLVED


async def test_events_with_one_key_are_one_alert_that_shows_the_latest(
    db: ClonedDatabase, sql: Connection
) -> None:
    said = heard()
    async with store_of(db, said) as store:
        await alert(sql, "a", times=2)
        await composed(store, said, "one", "two")
        await alert(sql, "a", times=3, body='{"page": 7}')
        await fold_events(store, said.telemetry)

    row = await sql.fetchrow(
        "select title, body::text, occurrences, state, first_seen < last_seen from wakeful.alert"
    )
    assert row is not None
    assert tuple(row) == ("a number 3", '{"page": 7}', 5, "open", True)
    sinks = await sql.fetch("select sink, body from wakeful.alert_delivery order by sink")
    assert [row["sink"] for row in sinks] == ["one", "two"]
    assert json.loads(sinks[0]["body"])["data"]["occurrences"] == 2
    assert said.recorder.of(ALERT_FOLDED) == [{"alert_id": 1, "kind": "trouble", "count": 3}]


async def test_a_death_is_told(db: ClonedDatabase, sql: Connection) -> None:
    said = heard()
    job = await factories.enqueue(sql, "COLLECT", subject="place 7")
    await factories.claim(sql, job.job_id)
    await factories.depart(sql, job.job_id, "refuse", reason="BadPayload: no place")
    async with running_receiver() as receiver, dispatching(db, said, webhooks(said, hook=receiver.url)):
        await eventually(lambda: unsent(sql), until=lambda left: left == 0)

    message = json.loads(receiver.received[0].body)
    assert message["type"] == "alert.opened"
    assert message["data"]["kind"] == "job_dead"
    assert message["data"]["dedupe_key"] == "job_dead:COLLECT:refuse"
    assert message["data"]["subject"] == "place 7"
    assert receiver.received[0].headers["Content-Type"] == "application/json"


@pytest.mark.case("I21")
async def test_four_dispatchers_count_each_event_once_and_send_each_message_once(
    db: ClonedDatabase, sql: Connection
) -> None:
    said = heard()
    producer = await db.connect()
    async with (
        running_receiver() as receiver,
        dispatching(db, said, webhooks(said, hook=receiver.url, other=receiver.url), number=4),
    ):
        for n in range(500):
            await alert(producer, f"key {n}", times=1 + n % 3)
            await alert(producer, "the same for all")
        await eventually(lambda: unsent(sql), until=lambda left: left == 0, timeout=60)

    await counts_add_up(sql)
    assert await sql.fetchval("select sum(occurrences) from wakeful.alert") == 499 + 500 + 500
    assert await sql.fetchval("select count(*) from wakeful.alert") == 501
    times = Counter(request.message_id for request in receiver.received)
    assert len(times) == 2 * 501
    assert set(times.values()) == {1}
    assert await sql.fetchval("select count(*) from wakeful.alert_delivery where attempts <> 1") == 0


async def test_an_alert_that_somebody_has_locked_stops_no_other(db: ClonedDatabase, sql: Connection) -> None:
    said = heard()
    async with running_receiver() as receiver, dispatching(db, said, webhooks(said, hook=receiver.url)):
        await alert(sql, "held")
        await said.recorder.seen(ALERT_OPENED)
        psql = await db.connect()
        lunch = psql.transaction()
        await lunch.start()
        await psql.execute("update wakeful.alert set state = 'acknowledged'")
        # More events of the held key than a batch takes, before those of the others.
        await alert(sql, "held", times=600)
        await alert(sql, "free")
        await eventually(lambda: _sent_titles(sql), until=lambda titles: "free number 1" in titles)
        assert await sql.fetchval("select count(*) from wakeful.alert_outbox where alert_id is null") == 600

        await lunch.commit()
        await eventually(lambda: unsent(sql), until=lambda left: left == 0)

    await counts_add_up(sql)
    held = await sql.fetchrow("select occurrences, state from wakeful.alert where dedupe_key = 'held'")
    assert held is not None
    assert tuple(held) == (601, "acknowledged")


async def test_a_locked_alert_is_named_and_not_waited_for(db: ClonedDatabase, sql: Connection) -> None:
    said = heard()
    await alert(sql, "held")
    async with store_of(db, said) as store:
        await fold_events(store, said.telemetry)
        await alert(sql, "held", times=2)
        await alert(sql, "free")
        async with sql.transaction():
            await sql.execute("update wakeful.alert set title = title")
            folded = await outbox.fold(store, limit=10)

    assert folded.held == ("held",)
    assert folded.rows == 1
    assert [opened.dedupe_key for opened in folded.opened] == ["free"]


async def test_an_alert_that_somebody_is_opening_stops_no_other(db: ClonedDatabase, sql: Connection) -> None:
    said = heard()
    psql = await db.connect()
    lunch = psql.transaction()
    await lunch.start()
    await psql.execute(
        """insert into wakeful.alert (dedupe_key, kind, title, severity, body, occurrences, first_seen, last_seen)
           values ('held', 'trouble', 'by hand', 'error', '{}', 0, now(), now())"""
    )
    await alert(sql, "held", times=600)
    await alert(sql, "free")
    async with running_receiver() as receiver, dispatching(db, said, webhooks(said, hook=receiver.url)):
        await eventually(lambda: _sent_titles(sql), until=lambda titles: "free number 1" in titles)
        await lunch.rollback()
        await eventually(lambda: unsent(sql), until=lambda left: left == 0)

    await counts_add_up(sql)
    assert await sql.fetchval("select occurrences from wakeful.alert where dedupe_key = 'held'") == 600


async def test_what_happens_after_a_quiet_time_is_told_anew(db: ClonedDatabase, sql: Connection) -> None:
    said = heard()
    settings = OutboxSettings(interval=0.05, quiet=0.2)
    async with (
        running_receiver() as receiver,
        dispatching(db, said, webhooks(said, hook=receiver.url), settings=settings),
    ):
        await alert(sql, "a")
        await said.recorder.seen(ALERT_RESOLVED)
        await alert(sql, "a")
        await eventually(
            lambda: sql.fetchval("select count(*) from wakeful.alert_delivery where state = 'delivered'"),
            until=lambda n: n == 4,
        )

    kinds = [json.loads(request.body)["type"] for request in receiver.received]
    assert kinds == ["alert.opened", "alert.resolved", "alert.opened", "alert.resolved"]
    assert len({request.message_id for request in receiver.received}) == 4
    await counts_add_up(sql)


async def test_what_waits_to_be_folded_keeps_its_alert_open(db: ClonedDatabase, sql: Connection) -> None:
    said = heard()
    async with store_of(db, said) as store:
        await alert(sql, "a")
        await fold_events(store, said.telemetry)
        await alert(sql, "a")
        await sql.execute("update wakeful.alert set last_seen = now() - interval '1 day'")

        assert await outbox.resolve_quiet(store, 60) == []
        await fold_events(store, said.telemetry)
        assert await outbox.resolve_quiet(store, 60) == []
        await sql.execute(
            "update wakeful.alert set state = 'acknowledged', last_seen = now() - interval '1 day'"
        )
        resolved = await outbox.resolve_quiet(store, 60)

    assert [(one.kind, one.occurrences) for one in resolved] == [("trouble", 2)]


async def test_a_message_keeps_its_bytes_while_its_alert_goes_on(db: ClonedDatabase, sql: Connection) -> None:
    said = heard()
    async with running_receiver() as receiver:
        await alert(sql, "a")
        async with store_of(db, said) as store:
            await composed(store, said, "hook")
            before = await sql.fetchval("select body from wakeful.alert_delivery")
            await alert(sql, "a", times=5, body='{"other": true}')
            await fold_events(store, said.telemetry)
        await make_due(sql)
        async with dispatching(db, said, webhooks(said, hook=receiver.url)):
            await eventually(lambda: unsent(sql), until=lambda left: left == 0)

    assert [request.body for request in receiver.received] == [before.encode()]


async def test_details_that_python_cannot_read_are_left_out_and_the_alert_is_told(
    db: ClonedDatabase, sql: Connection
) -> None:
    said = heard()
    deep = '{"a": ' + "[" * 5000 + "]" * 5000 + "}"
    await alert(sql, "deep", body=deep)
    await alert(sql, "plain", body='{"price": 12345678901234567890.10}')
    async with running_receiver() as receiver, dispatching(db, said, webhooks(said, hook=receiver.url)):
        await eventually(lambda: unsent(sql), until=lambda left: left == 0)

    bodies = {json.loads(request.body)["data"]["dedupe_key"]: request.body for request in receiver.received}
    assert b"nested too deeply" in bodies["deep"]
    assert b"12345678901234567890.10" in bodies["plain"]


async def _sent_titles(sql: Connection) -> set[str]:
    rows = await sql.fetch(
        "select a.title from wakeful.alert a join wakeful.alert_delivery d using (alert_id) where d.state = 'delivered'"
    )
    return {row["title"] for row in rows}


async def test_a_backlog_is_folded_turn_by_turn_without_a_rest_so_that_people_hear_meanwhile(
    db: ClonedDatabase, sql: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wakeful.outbox.folding.BATCH", 2)
    monkeypatch.setattr("wakeful.outbox.folding.BATCHES", 3)
    said = heard()
    await alert(sql, "a", times=61)
    async with store_of(db, said) as store:
        assert await fold_events(store, said.telemetry) == 6
    settings = OutboxSettings(interval=3600.0)
    async with (
        running_receiver() as receiver,
        dispatching(db, said, webhooks(said, hook=receiver.url), settings=settings),
    ):
        await eventually(lambda: unsent(sql), until=lambda left: left == 0, timeout=30)
    await counts_add_up(sql)
