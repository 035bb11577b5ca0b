"""Sinks of all kinds as the dispatcher drives them: nothing secret comes out anywhere, and no vendor is hurried."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack

import pytest
from aiohttp import web

from support.card_rules import discord_problems, pagerduty_problems, slack_problems, teams_problems
from support.databases import ClonedDatabase, Connection
from support.dispatching import alert, dispatching, heard
from support.eventually import eventually
from support.messages import PAYLOAD_VALUE
from support.receiver import PATH, Received, Reply, answer, refuse, running_receiver
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
VENDORS: Mapping[str, tuple[Reply, Callable[[bytes], list[str]]]] = {
    "other": (answer(202), teams_problems),
    "one": (answer(200, "ok"), slack_problems),
    "two": (answer(204), discord_problems),
    "well": (answer(202), pagerduty_problems),
}
EVERYTHING = """
    select delivery::text from wakeful.alert_delivery as delivery
    union all select alert::text from wakeful.alert as alert
"""


@pytest.mark.case("F79")
@pytest.mark.parametrize("reply", [refuse(500), refuse(410), answer(200, f"http://127.0.0.1{PATH}")])
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


async def test_what_the_outbox_makes_is_a_card_for_every_vendor(db: ClonedDatabase, sql: Connection) -> None:
    said = heard()
    error = "ValueError: " + "가격이 없습니다 " * 2000
    details = {"last_error": error, "attempts": 5, "max_attempts": 5, "payload": {"key": PAYLOAD_VALUE}}
    await alert(sql, "place 9", times=3, body=json.dumps(details))
    async with AsyncExitStack() as stack:
        receivers = {
            name: await stack.enter_async_context(running_receiver(otherwise=reply))
            for name, (reply, _) in VENDORS.items()
        }
        settings = {name: settings_of(NAMES[name], one.url) for name, one in receivers.items()}
        async with dispatching(db, said, build_sinks(settings, said.telemetry)):
            await eventually(_delivered(sql), until=lambda number: number == len(VENDORS), timeout=30)

    for name, (_, problems) in VENDORS.items():
        (received,) = receivers[name].received
        assert problems(received.body) == []
        told = received.body.decode()
        for essential in ("place 9 number", "3 times", "5 of 5", "가격이 없습니다"):
            assert essential in told, (name, essential)
        assert PAYLOAD_VALUE not in told


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
