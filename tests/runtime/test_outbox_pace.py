"""F74: three hundred alerts at once to each kind of chat service, each of which takes only so many a second."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from aiohttp import web

from support.databases import ClonedDatabase, Connection
from support.dispatching import counts_add_up, dispatching, heard, pass_time
from support.eventually import eventually
from support.receiver import Received, Reply, answer, running_receiver
from support.vendors import settings_of
from wakeful.core.alert_settings import AlertSettings
from wakeful.core.settings import SinkKind, SinkSettings
from wakeful.outbox.policy import Policy
from wakeful.outbox.sending import SENDS_AT_ONCE
from wakeful.outbox.sinks.discord import DISCORD
from wakeful.outbox.sinks.pagerduty import PAGERDUTY
from wakeful.outbox.sinks.posting import Dialect, PostingSink
from wakeful.outbox.sinks.protocol import Sink
from wakeful.outbox.sinks.slack import SLACK
from wakeful.outbox.sinks.teams import TEAMS
from wakeful.outbox.sinks.webhook import WEBHOOK

ALERTS = 300
CARDS = 20  # what a storm leaves of them; the rest is one line
HURRY = 10  # the vendors' seconds are tenths here, and so are the paces that are kept to them
COUNTED = 5  # of its seconds
A_FEW = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    kind: SinkKind
    dialect: Dialect
    success: Reply
    a_second: float


VENDORS: Mapping[str, Vendor] = {
    "teams": Vendor(kind="teams", dialect=TEAMS, success=answer(202), a_second=4),
    "slack": Vendor(kind="slack", dialect=SLACK, success=answer(200, "ok"), a_second=1),
    "discord": Vendor(kind="discord", dialect=DISCORD, success=answer(204), a_second=0.5),
    "pagerduty": Vendor(kind="pagerduty", dialect=PAGERDUTY, success=answer(202), a_second=2),
    "webhook": Vendor(kind="webhook", dialect=WEBHOOK, success=answer(204), a_second=1_000_000),
}


@dataclass(slots=True, kw_only=True)
class Strict:
    """A service that counts, and answers 429 to what is too much."""

    vendor: Vendor
    at: list[float] = field(default_factory=list)
    refused: int = 0
    taken: list[str] = field(default_factory=list)

    async def reply(self, received: Received, request: web.Request) -> web.StreamResponse:
        """Take it, unless more came in the last of its seconds than it takes, and one: each forgives a short burst."""
        self.at.append(time.monotonic())
        lately = sum(at > self.at[-1] - COUNTED / HURRY for at in self.at)
        if lately > COUNTED * self.vendor.a_second + 1:
            self.refused += 1
            return web.Response(status=429, headers={"Retry-After": "1"})
        self.taken.append(received.body.decode())
        return await self.vendor.success(received, request)


@pytest.mark.case("F74")
async def test_three_hundred_alerts_reach_every_service_at_its_pace_and_in_order_of_age(
    db: ClonedDatabase, sql: Connection
) -> None:
    said = heard()
    await sql.execute(
        "select wakeful.alert('trouble', title => format('alert %s.', n), dedupe_key => 'key ' || n)"
        f" from generate_series(1, {ALERTS}) as n"
    )
    # Each a second after the one before.
    await sql.execute(
        "update wakeful.alert_outbox set created_at = created_at - make_interval(secs => $1 - outbox_id)",
        ALERTS,
    )
    services = {name: Strict(vendor=vendor) for name, vendor in VENDORS.items()}
    async with AsyncExitStack() as stack:
        sinks: list[Sink] = []
        for name, service in services.items():
            receiver = await stack.enter_async_context(running_receiver(otherwise=service.reply))
            settings = settings_of(service.vendor.kind, receiver.url)
            sinks.append(_hurried(name, settings, service.vendor.dialect, said.telemetry.redactor))
        busy = await stack.enter_async_context(running_receiver(otherwise=answer(429)))
        sinks.append(_hurried("busy", settings_of("slack", busy.url), SLACK, said.telemetry.redactor))
        policy = Policy(alerts=AlertSettings(first_wait=0.0, updates=3600.0))
        await stack.enter_async_context(dispatching(db, said, sinks, policy=policy, number=2))
        await eventually(_taken(sql), until=lambda number: number == CARDS * len(VENDORS), timeout=60)
        await pass_time(sql, 61)
        await eventually(_taken(sql), until=lambda number: number == (CARDS + 1) * len(VENDORS), timeout=60)

    for name, service in services.items():
        assert service.refused <= A_FEW, name
        numbers = [_number(text) for text in service.taken[:CARDS]]
        assert sorted(numbers) == list(range(1, CARDS + 1)), name
        late = SENDS_AT_ONCE + service.refused * SENDS_AT_ONCE
        assert all(abs(number - place) <= late for place, number in enumerate(numbers, start=1)), (
            name,
            numbers,
        )
        assert f"{ALERTS - CARDS} more alerts" in service.taken[CARDS], name
    await counts_add_up(sql)


def _hurried(name: str, settings: SinkSettings, dialect: Dialect, redactor: Any) -> PostingSink:
    return PostingSink(name, settings, redactor, replace(dialect, pace=dialect.pace / HURRY))


def _number(text: str) -> int:
    """Which alert a card is about: each vendor's has its title somewhere."""
    found = re.search(r"alert (\d+)\.", text)
    assert found is not None, text
    return int(found[1])


def _taken(sql: Connection) -> Callable[[], Awaitable[int]]:
    return lambda: sql.fetchval("select count(*) from wakeful.alert_delivery where state = 'delivered'")
