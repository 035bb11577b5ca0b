"""What a sink would send of a message, as text that people can read; nothing is sent.

Invariant: made by the code that sends, so that it is what a receiver gets: JSON with line breaks added, a letter with
its parts decoded. No key of a sink is in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from email.message import EmailMessage
from typing import Final, assert_never

from wakeful.core.secrets import HIDDEN
from wakeful.core.settings import SinkKind, SinkSettings
from wakeful.outbox.cards.document import read
from wakeful.outbox.cards.letters import headline, letter, plain_text
from wakeful.outbox.sinks.discord import DISCORD
from wakeful.outbox.sinks.log import LogSink
from wakeful.outbox.sinks.pagerduty import PAGERDUTY
from wakeful.outbox.sinks.posting import Dialect
from wakeful.outbox.sinks.slack import SLACK
from wakeful.outbox.sinks.teams import TEAMS
from wakeful.outbox.sinks.webhook import WEBHOOK
from wakeful.store.outbox import Delivery
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import Event

_SENDER: Final = "Wakeful <wakeful@example.com>"
_RECIPIENTS: Final = ("operations@example.com",)


async def rendered(delivery: Delivery, sink: SinkSettings, *, name: str) -> str:
    """Give what the sink would be sent."""
    kind: SinkKind = sink.kind
    match kind:
        case "log":
            return await _line(delivery, name)
        case "webhook":
            return _posted(delivery, WEBHOOK)
        case "teams":
            return _posted(delivery, TEAMS)
        case "slack":
            return _posted(delivery, SLACK)
        case "discord":
            return _posted(delivery, DISCORD)
        case "pagerduty":
            return _posted(delivery, PAGERDUTY, key=HIDDEN)
        case "email":
            sender, recipients = sink.sender or _SENDER, sink.recipients or _RECIPIENTS
            return _letter(letter(delivery.body, delivery.delivery_id, sender=sender, recipients=recipients))
        case "apprise":
            message = read(delivery.body)
            return f"{headline(message)}\n\n{plain_text(message)}"
        case _:
            assert_never(kind)


def _posted(delivery: Delivery, dialect: Dialect, *, key: str = "") -> str:
    return _pretty(json.loads(dialect.request(delivery, key).body))


async def _line(delivery: Delivery, name: str) -> str:
    lines: list[str] = []

    def note(event: Event, fields: Mapping[str, object]) -> None:
        lines.append(_pretty({"event": event.name, **fields}))

    telemetry = Telemetry()
    telemetry.subscribe(note)
    await LogSink(name, telemetry).send(delivery)
    return "\n".join(lines)


def _letter(mail: EmailMessage) -> str:
    headers = "\n".join(f"{name}: {value}" for name, value in mail.items())
    parts = [
        f"--- {part.get_content_type()} ---\n{part.get_content()}"
        for part in mail.iter_parts()
        if isinstance(part, EmailMessage)
    ]
    return "\n\n".join((headers, *parts))


def _pretty(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
