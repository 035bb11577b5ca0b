"""One alert that nobody thought of: it is told, set aside, and told without its details; all others go on."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pkgutil import resolve_name
from typing import Any

import pytest

from support.databases import ClonedDatabase, Connection
from support.dispatching import (
    AT_ONCE,
    BRISK,
    Heard,
    alert,
    composed,
    counts_add_up,
    dispatching,
    heard,
    make_due,
    pass_time,
    store_of,
    take,
    unsent,
    webhooks,
)
from support.eventually import eventually
from support.receiver import answer, running_receiver
from support.vendors import settings_of
from wakeful.core.alert_settings import AlertSettings, RouteSettings
from wakeful.core.settings import SinkSettings
from wakeful.errors import StoreBusy
from wakeful.outbox import sinks as sinks_module
from wakeful.outbox.composing import Composing
from wakeful.outbox.folding import fold_events
from wakeful.outbox.policy import Policy
from wakeful.outbox.sinks import build_sinks
from wakeful.outbox.sinks.posting import PostingSink
from wakeful.outbox.sinks.protocol import Answer, Sent
from wakeful.outbox.sinks.webhook import WEBHOOK
from wakeful.store.database import Database
from wakeful.store.outbox import Delivery
from wakeful.telemetry.events import (
    ALERT_FOLDED,
    ALERT_RESOLVED,
    ALERT_UNFOLDED,
    ALERT_UNTOLD,
    OUTBOX_BARED,
    OUTBOX_DELIVERED,
    OUTBOX_FAILED,
    OUTBOX_GAVE_UP,
    OUTBOX_STEP_FAILED,
    SINK_UNBUILT,
)

BARE = ": its details could not be rendered"
# A key of which PostgreSQL's index takes less, whatever it is compressed to: no function lets it through.
UNFOLDABLE = """insert into wakeful.alert_outbox (kind, dedupe_key, title, severity, body)
    select 'trouble', (select string_agg(md5(n::text), '') from generate_series(1, 300) as n), 'long', 'error', '{}'"""


@pytest.fixture
def said() -> Heard:
    return heard()


@pytest.fixture
async def store(db: ClonedDatabase, said: Heard) -> AsyncIterator[Database]:
    async with store_of(db, said) as store:
        yield store


async def test_events_that_can_not_be_folded_are_counted_and_told_without_what_is_in_them(
    db: ClonedDatabase, sql: Connection, said: Heard
) -> None:
    await alert(sql, "before")
    for _ in range(3):
        await sql.execute(UNFOLDABLE)
    await alert(sql, "after")
    async with running_receiver() as receiver, dispatching(db, said, webhooks(said, hook=receiver.url)):
        await eventually(lambda: unsent(sql), until=lambda left: left == 0, timeout=30)
        for _ in range(2):
            await sql.execute(UNFOLDABLE)
        await said.recorder.seen(ALERT_FOLDED)

    told = {one["data"]["title"]: one["data"]["occurrences"] for one in map(_body, receiver.received)}
    assert told == {"before number 1": 1, "after number 1": 1, "trouble: what happened could not be read": 3}
    assert sum(int(str(one["rows"])) for one in said.recorder.of(ALERT_UNFOLDED)) >= 4
    await _all_folded(db, said)
    assert await sql.fetchval("select max(occurrences) from wakeful.alert") == 5
    await counts_add_up(sql)


async def test_events_with_which_nothing_can_be_done_are_left_alone_for_a_while(
    db: ClonedDatabase, sql: Connection, said: Heard
) -> None:
    await sql.execute("alter table wakeful.alert add constraint no_poison check (kind <> 'poison')")
    await sql.execute("select wakeful.alert('poison', dedupe_key => 'p')")
    async with running_receiver() as receiver, dispatching(db, said, webhooks(said, hook=receiver.url)):
        for n in range(3):
            await alert(sql, f"free {n}")
        await eventually(lambda: _delivered(sql), until=lambda number: number == 3, timeout=30)

    (unfolded,) = said.recorder.of(ALERT_UNFOLDED)
    assert (unfolded["rows"], unfolded["dedupe_key"]) == (0, "p")
    assert await sql.fetchval("select count(*) from wakeful.alert_outbox where alert_id is null") == 1


@pytest.mark.parametrize("breaking", ["decide", "message"])
async def test_an_alert_that_breaks_what_writes_it_is_tried_three_times_then_told_without_details(
    store: Database, said: Heard, sql: Connection, monkeypatch: pytest.MonkeyPatch, breaking: str
) -> None:
    _break(monkeypatch, breaking)
    for key in ("poison", "free"):
        await alert(sql, key)

    await composed(store, said, "hook", "other")
    assert [one["data"]["group"] for one in await take(sql)] == ["free"]
    assert [one["data"]["group"] for one in await take(sql, sink="other")] == ["free"]
    for _ in range(3):
        await pass_time(sql, 60)
        await composed(store, said, "hook", "other")

    for sink in ("hook", "other"):
        (bare,) = await take(sql, sink=sink)
        assert bare["data"]["title"] == f"trouble{BARE}"
        assert (bare["type"], bare["data"]["group"]) == ("alert.opened", "poison")
    assert [told["kind"] for told in said.recorder.of(ALERT_UNTOLD)] == ["trouble"] * 3
    await sql.fetchval("select wakeful.resolve(alert_id) from wakeful.alert where dedupe_key = 'poison'")
    await composed(store, said, "hook", "other")
    assert [one["type"] for one in await take(sql)] == ["alert.resolved"]


async def test_an_alert_that_not_even_a_bare_message_is_made_of_is_given_up_until_it_happens_again(
    store: Database, said: Heard, sql: Connection
) -> None:
    await sql.execute(
        "alter table wakeful.alert_delivery add constraint never check (body not like '%poison%')"
    )
    for key in ("poison", "free"):
        await alert(sql, key)
    for _ in range(10):
        await composed(store, said, "hook")
        await pass_time(sql, 3600)

    assert len(said.recorder.of(ALERT_UNTOLD)) == 7
    assert [one["data"]["group"] for one in await take(sql)] == ["free"]
    assert await sql.fetchval("select look_at is null from wakeful.alert where dedupe_key = 'poison'")
    await alert(sql, "poison")
    await composed(store, said, "hook")
    assert await sql.fetchval("select look_at > now() from wakeful.alert where dedupe_key = 'poison'")


async def test_in_a_digest_one_that_can_not_be_written_leaves_the_others_together(
    store: Database, said: Heard, sql: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    _break(monkeypatch, "entry")
    policy = Policy(alerts=AlertSettings(first_wait=0.0), routes={"hook": RouteSettings(digest="error")})
    for key in ("poison", "a", "b", "c"):
        await alert(sql, key)
    await composed(store, said, "hook", policy=policy)
    await pass_time(sql, 3600)
    await composed(store, said, "hook", policy=policy)

    (digest,) = await take(sql)
    assert digest["data"]["title"] == "3 more alerts"
    for _ in range(3):
        await pass_time(sql, 3600)
        await composed(store, said, "hook", policy=policy)
    titles = [one["title"] for message in await take(sql) for one in message["data"]["alerts"]]
    assert titles == [f"trouble{BARE}"]


async def test_a_message_that_no_version_can_read_is_merged_as_one_more(
    store: Database, said: Heard, sql: Connection
) -> None:
    for key in ("a", "b", "c", "d"):
        await alert(sql, key)
    await composed(store, said, "hook")
    for number, body in (
        (1, "{not json"),
        (2, '{"data": {"alerts": 7, "alert_id": {}}}'),
        (3, "[" * 100_000),
    ):
        await sql.execute("update wakeful.alert_delivery set body = $2 where alert_id = $1", number, body)
    await pass_time(sql, 3700)

    policy = Policy(alerts=AlertSettings(first_wait=0.0))
    composing = Composing(database=store, telemetry=said.telemetry, policy=policy, sinks=("hook",))
    assert await composing.merge_stale() == 4

    (digest,) = await take(sql)
    assert len(digest["data"]["alerts"]) + digest["data"]["more"] >= 3


async def test_an_unforeseen_error_in_any_step_ends_no_dispatcher_and_no_other_step(
    db: ClonedDatabase, sql: Connection, said: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_arguments: object, **_options: object) -> object:
        raise ZeroDivisionError("nobody thought of it")

    for name in ("resolve_quiet", "resolve_gone"):
        monkeypatch.setattr(f"wakeful.store.outbox.{name}", broken)
    monkeypatch.setattr("wakeful.store.alerts.open_sinks", broken)
    monkeypatch.setattr("wakeful.outbox.composing.Composing.merge_stale", broken)
    settings = replace(BRISK, quiet=1.0)
    async with (
        running_receiver() as receiver,
        dispatching(db, said, webhooks(said, hook=receiver.url), settings=settings),
    ):
        for step in ("resolve", "open", "merge"):
            await said.recorder.seen(OUTBOX_STEP_FAILED, step=step)
        await alert(sql, "a")
        await said.recorder.seen(OUTBOX_DELIVERED)
        with monkeypatch.context() as worse:
            worse.setattr("wakeful.store.outbox.look", broken)
            await said.recorder.seen(OUTBOX_STEP_FAILED, step="look")
        await alert(sql, "b")
        await eventually(lambda: _delivered(sql), until=lambda number: number == 2, timeout=30)


async def test_an_end_is_told_though_what_is_done_after_it_takes_too_long(
    db: ClonedDatabase, sql: Connection, said: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def too_long(*_arguments: object, **_options: object) -> object:
        raise StoreBusy("no answer within 30 s")

    monkeypatch.setattr("wakeful.store.outbox.resolve_gone", too_long)
    await alert(sql, "a")
    async with (
        running_receiver() as receiver,
        dispatching(db, said, webhooks(said, hook=receiver.url), settings=replace(BRISK, quiet=0.1)),
    ):
        await said.recorder.seen(ALERT_RESOLVED)


async def test_a_mark_that_fails_for_a_reason_nobody_thought_of_costs_a_repeat_and_no_more(
    db: ClonedDatabase, sql: Connection, said: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_arguments: object) -> None:
        raise ZeroDivisionError("nobody thought of it")

    await alert(sql, "a")
    async with running_receiver() as receiver, dispatching(db, said, webhooks(said, hook=receiver.url)):
        with monkeypatch.context() as worse:
            worse.setattr("wakeful.store.outbox.mark_delivered", broken)
            await said.recorder.seen(OUTBOX_STEP_FAILED, step="send")
        await make_due(sql)
        await said.recorder.seen(OUTBOX_DELIVERED, attempt=2)

    assert len({request.message_id for request in receiver.received}) == 1


async def test_what_a_sinks_code_can_not_render_is_sent_without_its_details(
    db: ClonedDatabase, sql: Connection, said: Heard
) -> None:
    def render(delivery: Delivery, key: str) -> Any:
        if "poison" in json.loads(delivery.body)["data"]["title"]:
            raise TypeError("a card of poison")
        return WEBHOOK.request(delivery, key)

    async with running_receiver() as receiver:
        settings = SinkSettings(kind="webhook", url=receiver.url)
        sink = PostingSink("hook", settings, said.telemetry.redactor, replace(WEBHOOK, request=render))
        async with dispatching(db, said, (sink,)):
            for key in ("poison", "free"):
                await alert(sql, key)
            await eventually(lambda: unsent(sql), until=lambda left: left == 0, timeout=30)

    (bared,) = said.recorder.of(OUTBOX_BARED)
    assert "TypeError: a card of poison" in str(bared["error"])
    told = sorted(one["data"]["title"] for one in map(_body, receiver.received))
    assert told == ["free number 1", f"trouble{BARE}"]
    row = await sql.fetchrow("select state, bare, attempts, excused from wakeful.alert_delivery where bare")
    assert tuple(row or ()) == ("delivered", True, 2, 1)


async def test_a_sink_of_ones_own_that_raises_for_one_message_is_given_it_without_details_at_last(
    db: ClonedDatabase, sql: Connection, said: Heard
) -> None:
    sink = _Choosy()
    await alert(sql, "poison")
    async with dispatching(db, said, (sink,)):
        for attempt in (1, 2):
            await said.recorder.seen(OUTBOX_FAILED, attempt=attempt)
            await make_due(sql)
        await said.recorder.seen(OUTBOX_BARED, attempt=3)
        await said.recorder.seen(OUTBOX_DELIVERED, attempt=4)

    (told,) = sink.taken
    assert (told["data"]["title"], told["data"]["alert_id"]) == (f"trouble{BARE}", 1)


async def test_a_card_that_its_vendor_refuses_is_sent_once_more_without_details_and_then_given_up(
    db: ClonedDatabase, sql: Connection, said: Heard
) -> None:
    await alert(sql, "a")
    async with running_receiver(otherwise=answer(422)) as receiver:
        sinks = build_sinks({"hook": settings_of("slack", receiver.url)}, said.telemetry)
        async with dispatching(db, said, sinks):
            await said.recorder.seen(OUTBOX_BARED, attempt=1)
            await said.recorder.seen(OUTBOX_GAVE_UP, attempt=2)

    assert len(receiver.received) == 2
    assert "could not be rendered" in receiver.received[1].body.decode()


@pytest.mark.parametrize("body", ["[]", "{}", '{"type": "alert.moved", "data": []}', "nothing"])
async def test_what_another_version_wrote_and_this_one_can_not_read_is_told_all_the_same(
    db: ClonedDatabase, sql: Connection, said: Heard, store: Database, body: str
) -> None:
    await alert(sql, "a")
    await composed(store, said, "one")
    await sql.execute("update wakeful.alert_delivery set body = $1", body)
    async with running_receiver(otherwise=answer(200, "ok")) as receiver:
        sinks = build_sinks({"one": replace(settings_of("slack", receiver.url))}, said.telemetry)
        async with dispatching(db, said, sinks, policy=AT_ONCE):
            await said.recorder.seen(OUTBOX_DELIVERED)

    assert "trouble" in receiver.received[-1].body.decode()


async def test_alerts_and_notices_of_a_newer_version_hold_nothing_up(
    store: Database, said: Heard, sql: Connection
) -> None:
    await sql.execute(
        "select wakeful.alert('a.kind.of_tomorrow', dedupe_key => 'new', body => '{\"last_error\": {}}')"
    )
    await alert(sql, "free")
    await sql.execute(
        """insert into wakeful.alert (dedupe_key, kind, title, severity, body, occurrences, first_seen, last_seen)
           values ('eternal', 'k', 't', 'info', '[]', 0, '-infinity', 'infinity')"""
    )
    await composed(store, said, "hook")
    assert sorted(one["data"]["group"] for one in await take(sql)) == ["eternal", "free", "new"]
    await sql.execute("update wakeful.alert_notice set told_as = 'digested_twice'")
    await sql.execute("update wakeful.alert set state = 'resolved', resolved_at = now(), look_at = now()")

    await composed(store, said, "hook")

    assert [one["type"] for one in await take(sql)] == ["alert.resolved"] * 3


async def test_a_sink_that_can_not_be_made_keeps_no_daemon_from_its_work_and_loses_nothing(
    db: ClonedDatabase, sql: Connection, said: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_arguments: object) -> object:
        raise AttributeError("no attribute of that name")

    await alert(sql, "a")
    async with running_receiver(otherwise=answer(200, "ok")) as receiver:
        settings = {"one": settings_of("slack", receiver.url), "log": SinkSettings(kind="log")}
        with monkeypatch.context() as worse:
            worse.setattr(sinks_module, "PostingSink", broken)
            sinks = build_sinks(settings, said.telemetry)
        (unbuilt,) = said.recorder.of(SINK_UNBUILT)
        async with dispatching(db, said, sinks):
            await said.recorder.seen(OUTBOX_DELIVERED, sink="log")
            failed = await said.recorder.seen(OUTBOX_FAILED, sink="one")
        assert (unbuilt["sink"], "could not be made" in str(failed["error"])) == ("one", True)
        assert await sql.fetchval("select attempts = excused from wakeful.alert_delivery where sink = 'one'")
        await make_due(sql)
        async with dispatching(db, said, build_sinks(settings, said.telemetry)):
            await said.recorder.seen(OUTBOX_DELIVERED, sink="one")


async def test_a_sink_that_gives_no_answer_at_all_has_failed(
    db: ClonedDatabase, sql: Connection, said: Heard
) -> None:
    await alert(sql, "a")
    async with dispatching(db, said, (_Speechless(),)):
        failed = await said.recorder.seen(OUTBOX_FAILED)
    assert "no answer" in str(failed["error"])


def _break(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """Let the code that decides, or writes, raise for one alert as a bug in it would."""
    names = {
        "decide": "wakeful.outbox.composing.decide",
        "message": "wakeful.outbox.message.Composer.message",
        "entry": "wakeful.outbox.message.Composer.entry",
    }
    module, _, name = names[what].rpartition(".")
    target: Any = resolve_name(module)
    sound: Callable[..., Any] = getattr(target, name)

    def breaking(*arguments: Any, **options: Any) -> Any:
        if any(getattr(one, "dedupe_key", "") == "poison" for one in arguments):
            raise RecursionError("nobody thought of it")
        return sound(*arguments, **options)

    monkeypatch.setattr(target, name, breaking)


def _body(received: Any) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(received.body)
    return message


async def _all_folded(db: ClonedDatabase, said: Heard) -> None:
    async with store_of(db, said) as store:
        await fold_events(store, said.telemetry)


async def _delivered(sql: Connection) -> int:
    found: int = await sql.fetchval("select count(*) from wakeful.alert_delivery where state = 'delivered'")
    return found


class _Choosy:
    """A sink of one's own whose code fails on one message."""

    name = "hook"
    timeout = 5.0
    pace = 0.0

    def __init__(self) -> None:
        self.taken: list[dict[str, Any]] = []

    async def send(self, delivery: Delivery) -> Answer:
        message = json.loads(delivery.body)
        if "poison" in message["data"]["title"]:
            raise LookupError("no template for it")
        self.taken.append(message)
        return Sent("taken")


class _Speechless(_Choosy):
    """A sink whose author forgot to answer."""

    async def send(self, delivery: Delivery) -> Answer:
        nothing: Any = None
        return nothing  # type: ignore[no-any-return]
