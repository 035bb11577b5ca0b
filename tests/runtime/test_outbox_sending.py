"""Sending: every way that a receiver can fail, each with what becomes of the message; none holds up another."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio
import pytest
from aiohttp import web

from support.databases import ClonedDatabase, Connection
from support.dispatching import (
    AT_ONCE,
    BRISK,
    Heard,
    alert,
    composed,
    dispatching,
    heard,
    make_due,
    store_of,
    unsent,
    webhooks,
)
from support.eventually import eventually
from support.proxy import Mode, Proxy
from support.receiver import (
    PATH,
    Received,
    Reply,
    accept,
    hang_up,
    refuse,
    running_receiver,
    stall,
)
from wakeful.core.settings import OutboxSettings, SinkSettings
from wakeful.outbox.dispatcher import flush_outbox
from wakeful.outbox.sinks import LogSink, Sent, build_sinks
from wakeful.store import outbox
from wakeful.store.outbox import Delivery
from wakeful.telemetry.events import (
    ALERT_TOLD,
    DATABASE_LOST,
    OUTBOX_DELIVERED,
    OUTBOX_FAILED,
    OUTBOX_GAVE_UP,
)


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (refuse(500), "500 Internal Server Error"),
        (refuse(404), "404 Not Found"),
        (refuse(429), "429 Too Many Requests"),
        (hang_up, "ServerDisconnectedError"),
        (stall, "no answer within 0.5 s"),
    ],
)
async def test_a_failed_try_is_repeated_with_the_same_id_and_the_same_bytes(
    db: ClonedDatabase, sql: Connection, reply: Reply, why: str
) -> None:
    said = heard()
    await alert(sql, "a")
    async with (
        running_receiver(reply) as receiver,
        dispatching(db, said, webhooks(said, hook=receiver.url)),
    ):
        failed = await said.recorder.seen(OUTBOX_FAILED)
        assert why in str(failed["error"])
        assert 4.0 <= float(str(failed["next_try_in"])) <= 5.0
        assert why in await sql.fetchval("select last_answer from wakeful.alert_delivery")
        await make_due(sql)
        await said.recorder.seen(OUTBOX_DELIVERED, attempt=2)

    first, second = receiver.received
    assert first.message_id == second.message_id
    assert first.body == second.body
    row = await sql.fetchrow("select state, attempts, last_answer, leased_by from wakeful.alert_delivery")
    assert row is not None
    assert tuple(row) == ("delivered", 2, "204 No Content", None)


async def test_a_next_try_is_made_when_it_is_due_however_rarely_is_looked(
    db: ClonedDatabase, sql: Connection
) -> None:
    said = heard()
    await alert(sql, "a")
    async with (
        running_receiver(refuse(503, Retry_After="1")) as receiver,
        dispatching(db, said, webhooks(said, hook=receiver.url), settings=OutboxSettings(interval=3600)),
    ):
        await said.recorder.seen(OUTBOX_DELIVERED, attempt=2)


async def test_a_receiver_says_when_to_come_again(db: ClonedDatabase, sql: Connection) -> None:
    said = heard()
    await alert(sql, "a")
    async with (
        running_receiver(refuse(429, Retry_After="90")) as receiver,
        dispatching(db, said, webhooks(said, hook=receiver.url)),
    ):
        failed = await said.recorder.seen(OUTBOX_FAILED)

    assert 90 <= float(str(failed["next_try_in"])) <= 108
    seconds = await sql.fetchval("select extract(epoch from next_try_at - now()) from wakeful.alert_delivery")
    assert 80 <= seconds <= 108


async def test_a_redirect_is_not_followed(db: ClonedDatabase, sql: Connection) -> None:
    said = heard()
    await alert(sql, "a")
    async with (
        running_receiver() as elsewhere,
        running_receiver(otherwise=refuse(307, Location=elsewhere.url)) as receiver,
        dispatching(db, said, webhooks(said, hook=receiver.url)),
    ):
        failed = await said.recorder.seen(OUTBOX_FAILED)

    assert "307 Temporary Redirect; redirects are not followed" in str(failed["error"])
    assert elsewhere.received == []


async def test_a_message_that_is_too_large_is_not_sent_again(db: ClonedDatabase, sql: Connection) -> None:
    said = heard()
    await alert(sql, "a")
    async with (
        running_receiver(otherwise=refuse(413)) as receiver,
        dispatching(db, said, webhooks(said, hook=receiver.url)),
    ):
        given_up = await said.recorder.seen(OUTBOX_GAVE_UP)

    assert "413" in str(given_up["error"])
    assert await sql.fetchval("select state from wakeful.alert_delivery") == "failed"


async def test_after_the_last_try_it_is_given_up_without_an_alert_about_it(
    db: ClonedDatabase, sql: Connection
) -> None:
    said = heard()
    await alert(sql, "a", times=50)
    settings = OutboxSettings(interval=0.05, attempts=3)
    async with (
        running_receiver(otherwise=refuse(503)) as receiver,
        dispatching(db, said, webhooks(said, hook=receiver.url), settings=settings),
    ):
        for attempt in (1, 2):
            await said.recorder.seen(OUTBOX_FAILED, attempt=attempt)
            await make_due(sql)
        await said.recorder.seen(OUTBOX_GAVE_UP, attempt=3)
        await make_due(sql)
        await alert(sql, "b")
        await said.recorder.seen(OUTBOX_FAILED, alert_id=2)

    assert [request.body for request in receiver.received].count(receiver.received[0].body) == 3
    assert await sql.fetchval("select count(*) from wakeful.alert_outbox") == 51
    assert await sql.fetchval("select count(*) from wakeful.alert") == 2


async def test_a_sink_that_stalls_holds_up_no_other_and_not_the_loop(
    db: ClonedDatabase, sql: Connection
) -> None:
    said = heard()
    async with running_receiver(otherwise=stall) as dead, running_receiver() as well:
        settings = {
            "dead": SinkSettings(kind="webhook", url=dead.url, timeout=60),
            "well": SinkSettings(kind="webhook", url=well.url, timeout=5),
        }
        async with dispatching(db, said, build_sinks(settings, said.telemetry)):
            for n in range(50):
                await alert(sql, f"key {n}")
            await eventually(_delivered(sql, "well"), until=lambda number: number == 50)
            assert await sql.fetchval("select count(*) from wakeful.alert_delivery where leased_by = 1") == 4
            await alert(sql, "one more")
            await eventually(_delivered(sql, "well"), until=lambda number: number == 51)

    assert len(dead.received) == 4


async def test_one_message_that_stalls_holds_up_no_other_of_its_sink(
    db: ClonedDatabase, sql: Connection
) -> None:
    said = heard()
    async with running_receiver(stall) as receiver:
        sinks = build_sinks(
            {"hook": SinkSettings(kind="webhook", url=receiver.url, timeout=60)}, said.telemetry
        )
        async with dispatching(db, said, sinks):
            await alert(sql, "poison")
            await eventually(lambda: _number(receiver.received), until=lambda number: number == 1)
            for n in range(20):
                await alert(sql, f"key {n}")
            await eventually(_delivered(sql, "hook"), until=lambda number: number == 20)


async def test_a_mark_waits_for_the_database_and_the_message_is_sent_once(
    db: ClonedDatabase, sql: Connection, proxy: Proxy
) -> None:
    said = heard()

    async def take_the_database_away(received: Received, request: web.Request) -> web.StreamResponse:
        proxy.set(Mode.REFUSE)
        proxy.reset()
        return await accept(received, request)

    await alert(sql, "a")
    async with (
        running_receiver(take_the_database_away) as receiver,
        dispatching(db, said, webhooks(said, hook=receiver.url), proxy=proxy),
    ):
        await said.recorder.seen(DATABASE_LOST)
        assert await sql.fetchval("select state from wakeful.alert_delivery") == "pending"
        proxy.set(Mode.PASS)
        await said.recorder.seen(OUTBOX_DELIVERED)

    assert len(receiver.received) == 1
    assert await sql.fetchval("select state from wakeful.alert_delivery") == "delivered"


async def test_a_late_failure_leaves_the_lease_of_another_alone(db: ClonedDatabase, sql: Connection) -> None:
    said = heard()
    await alert(sql, "a")
    async with store_of(db, said) as store:
        await composed(store, said, "hook")
        (ours,) = await outbox.lease(store, "hook", 10, instance_id=1, seconds=60)
        assert await outbox.lease(store, "hook", 10, instance_id=2, seconds=60) == []
        await make_due(sql)
        (theirs,) = await outbox.lease(store, "hook", 10, instance_id=2, seconds=60)
        await outbox.postpone(store, ours, "late", seconds=0)
        await outbox.give_up(store, ours, "late")
        row = await sql.fetchrow("select state, leased_by, last_answer from wakeful.alert_delivery")
        assert row is not None
        assert tuple(row) == ("pending", 2, None)
        # What has arrived has arrived, whoever holds the lease.
        await outbox.mark_delivered(store, ours, "204 No Content")
        await outbox.postpone(store, theirs, "too late", seconds=0)

    assert await sql.fetchval("select state from wakeful.alert_delivery") == "delivered"


async def test_the_flush_folds_and_sends_what_is_due_and_no_more(db: ClonedDatabase, sql: Connection) -> None:
    said = heard()
    await alert(sql, "old")
    async with running_receiver(refuse(500)) as receiver, store_of(db, said) as store:
        sinks = webhooks(said, hook=receiver.url)
        await flush_outbox(store, sinks, 5, telemetry=said.telemetry, settings=BRISK, policy=AT_ONCE)
        for n in range(30):
            await alert(sql, f"key {n}")
        await flush_outbox(store, sinks, 5, telemetry=said.telemetry, settings=BRISK, policy=AT_ONCE)

    assert await _delivered(sql, "hook")() == 30
    assert await sql.fetchval("select count(*) from wakeful.alert_delivery where state = 'pending'") == 1


async def test_the_flush_ends_in_time_and_what_it_cut_off_is_sent_by_the_next(
    db: ClonedDatabase, sql: Connection
) -> None:
    said = heard()
    await alert(sql, "a")
    async with running_receiver(stall) as receiver, store_of(db, said) as store:
        sinks = build_sinks(
            {"hook": SinkSettings(kind="webhook", url=receiver.url, timeout=60)}, said.telemetry
        )
        with anyio.fail_after(30):
            await flush_outbox(store, sinks, 2, telemetry=said.telemetry, settings=BRISK, policy=AT_ONCE)
        assert len(receiver.received) == 1
        await make_due(sql)
        await flush_outbox(store, sinks, 5, telemetry=said.telemetry, settings=BRISK, policy=AT_ONCE)

    assert [request.message_id for request in receiver.received] == [receiver.received[0].message_id] * 2
    assert await unsent(sql) == 0


async def test_a_dispatcher_flushes_after_its_stop(db: ClonedDatabase, sql: Connection) -> None:
    said = heard()
    settings = OutboxSettings(interval=3600)
    async with (
        running_receiver() as receiver,
        dispatching(db, said, webhooks(said, hook=receiver.url), settings=settings, flush_seconds=5),
    ):
        await eventually(lambda: _sessions(sql))  # the first turn; none other comes
        await alert(sql, "the last one")

    assert len(receiver.received) == 1
    assert await unsent(sql) == 0


async def test_without_sinks_in_the_configuration_the_log_tells(db: ClonedDatabase, sql: Connection) -> None:
    said = heard()
    await alert(sql, "a")
    async with dispatching(db, said, build_sinks({}, said.telemetry)):
        await said.recorder.seen(OUTBOX_DELIVERED, sink="log")

    (line,) = said.recorder.of(ALERT_TOLD)
    assert (line["title"], line["message"], line["occurrences"]) == ("a number 1", "alert.opened", 1)
    assert line["severity"] == "warning"


async def test_a_sink_that_raises_anything_has_failed_and_no_more(
    db: ClonedDatabase, sql: Connection
) -> None:
    said = heard()
    await alert(sql, "a")
    async with dispatching(db, said, (_Broken(), LogSink("log", said.telemetry))):
        failed = await said.recorder.seen(OUTBOX_FAILED, sink="broken")
        await said.recorder.seen(OUTBOX_DELIVERED, sink="log")

    assert "the sink raised KeyError: 'channel'" in str(failed["error"])


async def test_a_secret_across_the_end_of_what_is_kept_of_an_error_is_hidden(
    db: ClonedDatabase, sql: Connection
) -> None:
    said = heard()
    said.telemetry.redactor.add("geheim-geheim-geheim")
    await alert(sql, "a")
    async with dispatching(db, said, (_Broken("x" * 440 + " geheim-geheim-geheim" * 4),)):
        failed = await said.recorder.seen(OUTBOX_FAILED, sink="broken")

    assert "x ***" in str(failed["error"])
    assert "geheim" not in str(failed["error"])


async def test_no_event_no_row_and_no_answer_shows_the_url(db: ClonedDatabase, sql: Connection) -> None:
    said = heard()
    shown: list[str] = []
    said.telemetry.subscribe(lambda event, fields: shown.append(f"{event.name} {dict(fields)}"))
    for n, reply in enumerate([refuse(404), refuse(307, Location=PATH), hang_up, stall, refuse(413), accept]):
        async with running_receiver(otherwise=reply) as receiver:
            await alert(sql, f"key {n}", body=json.dumps({"seen at": receiver.url}))
            await _send_once(db, sql, said, receiver.url)
    for n, start in enumerate(("http://127.0.0.1:1", "http://[::1", "http://no such host", "ftp://host")):
        await alert(sql, f"bad {n}", body=json.dumps({"url": start + PATH}))
        await _send_once(db, sql, said, start + PATH)

    rows = await sql.fetch("select sink, body, last_answer from wakeful.alert_delivery")
    everything = "\n".join([*shown, *(str(tuple(row)) for row in rows)])
    assert len(rows) == 10
    assert "127.0.0.1/*** (" in everything
    for secret in ("T0SECRET0", "B0SECRET0", "s3cr3t"):
        assert secret not in everything


async def _send_once(db: ClonedDatabase, sql: Connection, said: Heard, url: str) -> None:
    async with store_of(db, said) as store:
        await make_due(sql)
        await flush_outbox(
            store, webhooks(said, hook=url), 5, telemetry=said.telemetry, settings=BRISK, policy=AT_ONCE
        )


@dataclass
class _Broken:
    error: str = "channel"
    name: str = "broken"
    timeout: float = 1.0
    pace: float = 0.0

    async def send(self, delivery: Delivery) -> Sent:
        raise KeyError(self.error)


def _delivered(sql: Connection, sink: str) -> Callable[[], Awaitable[int]]:
    async def number() -> int:
        found: int = await sql.fetchval(
            "select count(*) from wakeful.alert_delivery where sink = $1 and state = 'delivered'", sink
        )
        return found

    return number


async def _number(received: list[Received]) -> int:
    return len(received)


async def _sessions(sql: Connection) -> int:
    found: int = await sql.fetchval(
        """select count(*) from pg_stat_activity
           where datname = current_database() and application_name = 'wakeful' and state = 'idle'"""
    )
    return found
