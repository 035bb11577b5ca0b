"""Sinks that are gone: closed, told, opened by another address or a test; and what was given up is sent again."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from support.databases import ClonedDatabase, Connection
from support.dispatching import (
    AT_ONCE,
    Heard,
    alert,
    composed,
    dispatching,
    heard,
    make_due,
    store_of,
    take,
    unsent,
    webhooks,
)
from support.eventually import eventually
from support.receiver import Reply, answer, hang_up, refuse, running_receiver
from wakeful.core.settings import OutboxSettings, SinkSettings
from wakeful.outbox.opening import open_readdressed
from wakeful.outbox.sending import Post
from wakeful.outbox.sinks import build_sinks
from wakeful.outbox.sinks.protocol import Sink
from wakeful.store import alert_board, alerts, outbox
from wakeful.store.database import Database
from wakeful.telemetry.events import (
    OUTBOX_DELIVERED,
    OUTBOX_FAILED,
    OUTBOX_GAVE_UP,
    SINK_CLOSED,
    SINK_OPENED,
)

LONG_AGO = "update wakeful.alert_sink set refused_since = refused_since - interval '11 min'"


@pytest.fixture
def said() -> Heard:
    return heard()


@pytest.fixture
async def store(db: ClonedDatabase, said: Heard) -> AsyncIterator[Database]:
    async with store_of(db, said) as store:
        yield store


def from_file(said: Heard, file: Path) -> tuple[Sink, ...]:
    settings = {"hook": SinkSettings(kind="webhook", url_file=str(file), timeout=2.0)}
    return build_sinks(settings, said.telemetry)


@pytest.mark.case("F77")
async def test_a_closed_sink_is_opened_when_its_address_changes_without_a_restart(
    db: ClonedDatabase, sql: Connection, said: Heard, tmp_path: Path
) -> None:
    file = tmp_path / "url"
    for n in range(20):
        await alert(sql, f"key {n}")
    async with running_receiver(otherwise=refuse(410)) as gone, running_receiver() as moved:
        file.write_text(gone.url)
        async with dispatching(db, said, from_file(said, file)):
            await said.recorder.seen(SINK_CLOSED, sink="hook")
            file.write_text(moved.url)
            await said.recorder.seen(SINK_OPENED, sink="hook")
            await make_due(sql)
            await eventually(lambda: unsent(sql), until=lambda left: left == 0, timeout=30)

    assert len(gone.received) <= 4
    assert len({request.message_id for request in moved.received}) == 20
    assert await sql.fetchval("select max(attempts - excused) from wakeful.alert_delivery") == 1


async def test_a_closed_sink_is_opened_by_another_address_or_key_and_by_nothing_else(
    sql: Connection, said: Heard, store: Database, tmp_path: Path
) -> None:
    file = tmp_path / "url"
    file.write_text("https://hooks.example.com/services/T0/B0")
    (post,) = posts = [Post(sink) for sink in from_file(said, file)]
    await sql.execute("insert into wakeful.alert_sink (sink) values ('hook')")
    assert await alerts.close_sink(store, "hook", "410 Gone", address=post.address)

    assert await open_readdressed(store, posts) == []
    file.unlink()
    assert await open_readdressed(store, posts) == []
    file.write_text("https://hooks.example.com/services/T0/B1")
    assert await open_readdressed(store, posts) == ["hook"]
    assert await open_readdressed(store, posts) == []

    settings = SinkSettings(kind="webhook", url="https://example.com", key="whsec_" + "a" * 32)
    other = replace(settings, key="whsec_" + "b" * 32)
    one, two = (Post(build_sinks({"hook": made}, said.telemetry)[0]) for made in (settings, other))
    assert one.address != two.address
    assert await alerts.close_sink(store, "hook", "410 Gone", address=one.address)
    assert await open_readdressed(store, [two]) == ["hook"]
    kept = await sql.fetchval("select alert_sink::text from wakeful.alert_sink")
    assert "example.com" not in kept


@pytest.mark.case("F77")
@pytest.mark.parametrize("status", [400, 401, 403, 404])
async def test_an_address_that_refuses_everything_for_long_is_closed_as_one_that_is_gone(
    db: ClonedDatabase, sql: Connection, said: Heard, status: int
) -> None:
    for n in range(10):
        await alert(sql, f"key {n}")
    async with running_receiver(otherwise=answer(status)) as receiver:
        async with dispatching(db, said, webhooks(said, hook=receiver.url)):
            await eventually(lambda: _refusals(sql), until=lambda number: number == 10, timeout=30)
            assert said.recorder.of(SINK_CLOSED) == []  # ten at once are a receiver that is being deployed
            await sql.execute(LONG_AGO)
            await make_due(sql)
            closed = await said.recorder.seen(SINK_CLOSED, sink="hook")
        assert str(status) in str(closed["error"])
        assert await sql.fetchval("select count(*) from wakeful.alert_delivery where state = 'pending'") == 10
        asked = len(receiver.received)
        await make_due(sql)
        async with store_of(db, said) as store:
            assert await outbox.lease(store, "hook", 4, instance_id=1, seconds=60) == []
            assert (await outbox.look(store, ["hook"])).due == frozenset()
        assert len(receiver.received) == asked


@pytest.mark.parametrize("reply", [refuse(500), refuse(429), hang_up])
async def test_trouble_of_other_kinds_closes_nothing_and_a_success_forgives(
    db: ClonedDatabase, sql: Connection, said: Heard, reply: Reply
) -> None:
    await alert(sql, "a")
    async with (
        running_receiver(refuse(404), reply) as receiver,
        dispatching(db, said, webhooks(said, hook=receiver.url)),
    ):
        await said.recorder.seen(OUTBOX_FAILED, attempt=1)
        assert await _refusals(sql) == 1
        await make_due(sql)
        await said.recorder.seen(OUTBOX_FAILED, attempt=2)
        assert await _refusals(sql) == 1
        await sql.execute("update wakeful.alert_sink set free_at = now()")
        await make_due(sql)
        await said.recorder.seen(OUTBOX_DELIVERED, attempt=3)

    assert await _refusals(sql) == 0
    assert await sql.fetchval("select refused_since from wakeful.alert_sink") is None


async def test_two_that_count_at_once_close_once(db: ClonedDatabase, sql: Connection, said: Heard) -> None:
    await sql.execute(
        "insert into wakeful.alert_sink (sink, refusals, refused_since) values ('hook', 20, now() - interval '1 hour')"
    )
    async with store_of(db, said) as one, store_of(db, said) as other:
        closed = [
            await alerts.count_refusal(store, "hook", "404", address=None) for store in (one, other, one)
        ]
    assert closed == [True, False, False]


async def test_a_message_loses_no_try_while_its_sink_is_gone_or_its_address_can_not_be_read(
    db: ClonedDatabase, sql: Connection, said: Heard, tmp_path: Path
) -> None:
    """However often somebody restarts a daemon before the address is mended."""
    file = tmp_path / "url"
    settings = OutboxSettings(interval=0.05, attempts=2)
    await alert(sql, "a")
    async with running_receiver(*[refuse(410)] * 3, refuse(500)) as receiver:
        for number in range(4):
            if number < 3:
                file.write_text(receiver.url)
            else:
                file.unlink()
            async with dispatching(db, said, from_file(said, file), settings=settings):
                await make_due(sql)
                await eventually(_tried(sql, number + 1), timeout=30)
        file.write_text(receiver.url)
        async with dispatching(db, said, from_file(said, file), settings=settings):
            await make_due(sql)
            await said.recorder.seen(OUTBOX_FAILED, attempt=5)  # the first of two that count
            await make_due(sql)
            await said.recorder.seen(OUTBOX_DELIVERED, attempt=6)


async def test_a_sink_that_is_in_no_configuration_any_more_holds_nothing_up_and_loses_no_try(
    db: ClonedDatabase, sql: Connection, said: Heard, store: Database
) -> None:
    for n in range(30):
        await alert(sql, f"key {n}")
    await composed(store, said, "hook", "other")
    async with running_receiver() as receiver, dispatching(db, said, webhooks(said, hook=receiver.url)):
        await alert(sql, "new")
        await eventually(
            lambda: sql.fetchval("select count(*) from wakeful.alert_delivery where state = 'delivered'"),
            until=lambda number: number == 31,
            timeout=30,
        )

    assert (
        await sql.fetchval(
            "select count(*) from wakeful.alert_delivery where sink = 'other' and state = 'pending' and attempts = 0"
        )
        == 30
    )


@pytest.mark.case("F77")
async def test_what_was_given_up_is_sent_again_once_with_all_its_tries(
    db: ClonedDatabase, sql: Connection, said: Heard, store: Database
) -> None:
    settings = OutboxSettings(interval=0.05, attempts=1)
    for key in ("a", "b"):
        await alert(sql, key)
    async with (
        running_receiver(otherwise=refuse(500)) as down,
        dispatching(db, said, webhooks(said, hook=down.url), settings=settings),
    ):
        for alert_id in (1, 2):
            await said.recorder.seen(OUTBOX_GAVE_UP, alert_id=alert_id)
    assert await alert_board.resend(store, alert_id=1, sink="other") == 0

    assert await alert_board.resend(store, alert_id=1, sink=None) == 1
    assert await alert_board.resend(store, alert_id=1, sink=None) == 0
    assert await alert_board.resend(store, alert_id=None, sink="hook") == 1
    assert await alert_board.resend(store, alert_id=None, sink="hook") == 0
    settings = OutboxSettings(interval=0.05, attempts=2)
    async with (
        running_receiver(refuse(500), refuse(500)) as up,
        dispatching(db, said, webhooks(said, hook=up.url), settings=settings),
    ):
        for alert_id in (1, 2):
            await said.recorder.seen(OUTBOX_FAILED, alert_id=alert_id, attempt=2)
        await make_due(sql)
        await eventually(lambda: unsent(sql), until=lambda left: left == 0, timeout=30)

    assert {r.message_id for r in up.received} == {r.message_id for r in down.received}
    noted = await sql.fetch("select action, object from wakeful.audit order by audit_id")
    assert [tuple(row) for row in noted] == [("resend", "alert 1"), ("resend", "sink hook")]
    assert await alert_board.resend(store, alert_id=1, sink=None) == 0  # it has arrived


async def test_what_a_later_message_has_overtaken_is_not_sent_again(
    sql: Connection, said: Heard, store: Database
) -> None:
    """The opening of an incident after its end would open it for ever."""
    await alert(sql, "a")
    await composed(store, said, "hook", policy=AT_ONCE)
    await sql.execute("update wakeful.alert_delivery set state = 'failed'")
    await sql.fetchval("select wakeful.resolve(1)")
    await composed(store, said, "hook", policy=AT_ONCE)
    assert [one["type"] for one in await take(sql)] == ["alert.resolved"]

    assert await alert_board.resend(store, alert_id=1, sink=None) == 0

    await sql.execute("update wakeful.alert_delivery set state = 'failed'")
    assert await alert_board.resend(store, alert_id=1, sink=None) == 1
    assert [one["type"] for one in await take(sql)] == ["alert.resolved"]


async def test_digests_that_were_given_up_are_sent_again_by_their_sink(
    sql: Connection, said: Heard, store: Database
) -> None:
    async with alerts.making(store) as making:
        await making.open([alerts.Message(alert_id=None, sink="hook", kind="alert.digest", body=_DIGEST)] * 2)
    await sql.execute("update wakeful.alert_delivery set state = 'failed', attempts = 20")

    assert await alert_board.resend(store, alert_id=None, sink="hook") == 2
    assert [one["type"] for one in await take(sql)] == ["alert.digest"] * 2


async def test_while_messages_of_an_alert_are_made_a_resend_waits_and_then_sees_them(
    db: ClonedDatabase, sql: Connection, said: Heard, store: Database
) -> None:
    await alert(sql, "a")
    await composed(store, said, "hook", policy=AT_ONCE)
    await sql.execute("update wakeful.alert_delivery set state = 'failed'")
    await sql.fetchval("select wakeful.resolve(1)")
    numbers: list[int] = []

    async def resend() -> None:
        async with store_of(db, said) as other:
            numbers.append(await alert_board.resend(other, alert_id=1, sink=None))

    async with anyio.create_task_group() as group, alerts.making(store) as making:
        await making.lock_sinks(["hook"])
        (looked,) = await making.take_alerts(10)
        group.start_soon(resend)
        await eventually(lambda: _waits(sql), timeout=30)
        end = alerts.Message(alert_id=looked.alert_id, sink="hook", kind="alert.resolved", body=_DIGEST)
        await making.open([end])

    assert numbers == [0]
    rows = await sql.fetch("select message, state from wakeful.alert_delivery order by created_at")
    assert [tuple(row) for row in rows] == [("alert.opened", "failed"), ("alert.resolved", "pending")]


_DIGEST = json.dumps({"type": "alert.digest", "timestamp": "t", "data": {"title": "2 more alerts"}})


async def _refusals(sql: Connection) -> int:
    found: int = await sql.fetchval("select coalesce(max(refusals), 0) from wakeful.alert_sink")
    return found


def _tried(sql: Connection, times: int) -> Callable[[], Awaitable[bool]]:
    return lambda: sql.fetchval(
        "select leased_until is null and attempts = $1 from wakeful.alert_delivery", times
    )


async def _waits(sql: Connection) -> bool:
    found: bool = await sql.fetchval(
        "select exists (select from pg_stat_activity"
        " where datname = current_database() and wait_event_type = 'Lock')"
    )
    return found
