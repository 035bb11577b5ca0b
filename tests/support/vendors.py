"""Sinks of every kind as tests need them, and one try of one message, as the dispatcher makes it."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from support.messages import delivery
from wakeful.core.settings import SinkKind, SinkSettings
from wakeful.outbox.sinks import Answer, Failed, Sent, Sink, build_sinks
from wakeful.store.outbox import Delivery
from wakeful.telemetry.bus import Telemetry

WEB: tuple[SinkKind, ...] = ("webhook", "teams", "slack", "discord", "pagerduty")
KEYS = {
    "pagerduty": "R0UT1NGKEYR0UT1NGKEY",
    "webhook": "whsec_" + "c2VjcmV0LXNlY3JldC1zZWNyZXQtMTIz",
    "email": "passw0rd-of-mail",
}


def settings_of(kind: SinkKind, url: str, *, timeout: float = 30.0) -> SinkSettings:
    """The settings of a sink that leads to `url`."""
    letters = kind == "email"
    return SinkSettings(
        kind=kind,
        url=url,
        key=KEYS.get(kind),
        timeout=timeout,
        sender="Wakeful <wakeful@example.com>" if letters else None,
        recipients=("one@example.com", "Two <two@example.com>") if letters else (),
    )


def sink_of(kind: SinkKind, url: str, *, timeout: float = 30.0, telemetry: Telemetry | None = None) -> Sink:
    """A sink that leads to `url`."""
    telemetry = telemetry or Telemetry(strict=True)
    (sink,) = build_sinks({"hook": settings_of(kind, url, timeout=timeout)}, telemetry)
    return sink


async def tried(sink: Sink, one: Delivery | None = None) -> Answer:
    """Send a message once, cut off when the sink's time is over."""
    with anyio.move_on_after(sink.timeout):
        return await sink.send(one or delivery())
    return Failed(reason="no answer in time")


def outcome(answer: Answer) -> str:
    """What becomes of a message with this answer: sent, gone, never, or retry."""
    match answer:
        case Sent():
            return "sent"
        case Failed(gone=True):
            return "gone"
        case Failed(permanent=True):
            return "never"
        case Failed():
            return "retry"


def shows_a_secret(texts: Sequence[object], *secrets: str) -> list[str]:
    """The texts in which one of the secrets stands."""
    return [str(text) for text in texts if any(secret in str(text) for secret in secrets)]
