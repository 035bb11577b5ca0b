"""Sinks of all kinds as the dispatcher drives them: nothing secret comes out anywhere, and no vendor is hurried."""

from __future__ import annotations

import io
import time
from collections.abc import Awaitable, Callable, Mapping

import pytest
from aiohttp import web

from support.databases import ClonedDatabase, Connection
from support.dispatching import alert, dispatching, heard
from support.eventually import eventually
from support.receiver import PATH, Received, Reply, answer, hang_up, refuse, running_receiver
from support.vendors import KEYS, settings_of, shows_a_secret
from wakeful.core.settings import LogSettings, SinkKind, SinkSettings
from wakeful.outbox.sinks import build_sinks
from wakeful.telemetry.events import OUTBOX_DELIVERED, OUTBOX_FAILED, OUTBOX_GAVE_UP, SINK_CLOSED
from wakeful.telemetry.logging import configure_logging, log_subscriber

# The names are those that `dispatching` tells each alert at once.
NAMES: Mapping[str, SinkKind] = {
    "hook": "webhook",
    "other": "teams",
    "one": "slack",
    "two": "discord",
    "well": "pagerduty",
    "dead": "email",
    "broken": "apprise",
}
SECRETS = ("SECRET0", "s3cr3t", *KEYS.values())
EVERYTHING = """
    select delivery::text from wakeful.alert_delivery as delivery
    union all select alert::text from wakeful.alert as alert
"""


@pytest.mark.case("F79")
@pytest.mark.parametrize(
    "reply", [refuse(500), refuse(400), refuse(410), hang_up, answer(200, f"http://127.0.0.1{PATH}")]
)
async def test_no_secret_is_in_an_event_a_line_of_the_log_or_a_column_however_a_sink_fails(
    db: ClonedDatabase, sql: Connection, reply: Reply
) -> None:
    said, log = heard(), io.StringIO()
    undo = configure_logging(LogSettings(format="json", level="debug"), said.telemetry.redactor, stream=log)
    said.telemetry.subscribe(log_subscriber)
    await alert(sql, "a")
    try:
        async with running_receiver(otherwise=reply) as receiver:
            settings = {name: _settings(kind, receiver.url) for name, kind in NAMES.items()}
            async with dispatching(db, said, build_sinks(settings, said.telemetry)):
                await eventually(_tried(sql), until=lambda number: number == len(NAMES), timeout=30)
    finally:
        undo()

    told = (OUTBOX_FAILED, OUTBOX_GAVE_UP, OUTBOX_DELIVERED, SINK_CLOSED)
    events = [fields for event in told for fields in said.recorder.of(event)]
    rows = [row[0] for row in await sql.fetch(EVERYTHING)]
    assert len(events) >= len(NAMES)
    assert log.getvalue()
    assert shows_a_secret([*events, *rows, *log.getvalue().splitlines()], *SECRETS) == []


@pytest.mark.case("F74")
async def test_two_dispatchers_together_are_no_faster_than_a_vendor_allows(
    db: ClonedDatabase, sql: Connection
) -> None:
    taken: list[float] = []

    async def at_most_four_a_second(_received: Received, _request: web.Request) -> web.StreamResponse:
        taken.append(time.monotonic())
        lately = [at for at in taken if at > taken[-1] - 1]
        return web.Response(status=202 if len(lately) <= 4 else 429)

    said = heard()
    async with running_receiver(otherwise=at_most_four_a_second) as receiver:
        sinks = build_sinks({"hook": settings_of("teams", receiver.url)}, said.telemetry)
        async with dispatching(db, said, sinks, number=2):
            for n in range(8):
                await alert(sql, f"key {n}")
            await eventually(_delivered(sql), until=lambda number: number == 8)

    assert len(taken) == 8
    assert said.recorder.of(OUTBOX_FAILED) == []


def _settings(kind: SinkKind, url: str) -> SinkSettings:
    if kind == "email":  # a server that waits to be spoken to, as HTTP does
        mail = url.replace("http://", "smtp+plain://user:SECRET0@").partition("?")[0]
        return settings_of(kind, mail, timeout=1.0)
    return settings_of(kind, url.replace("http://", "json://") if kind == "apprise" else url)


def _tried(sql: Connection) -> Callable[[], Awaitable[int]]:
    return lambda: sql.fetchval("select count(*) from wakeful.alert_delivery where last_answer is not null")


def _delivered(sql: Connection) -> Callable[[], Awaitable[int]]:
    return lambda: sql.fetchval("select count(*) from wakeful.alert_delivery where state = 'delivered'")
