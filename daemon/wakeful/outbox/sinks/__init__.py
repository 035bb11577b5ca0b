"""Where alerts are sent: one file a kind of sink, each by the protocol in `protocol.py`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final, assert_never

from wakeful.config import current_url
from wakeful.core.secrets import hidden_values
from wakeful.core.settings import SinkSettings
from wakeful.errors import ConfigError
from wakeful.outbox.sinks.log import LogSink
from wakeful.outbox.sinks.protocol import Answer, Failed, Sent, Sink
from wakeful.outbox.sinks.webhook import WebhookSink
from wakeful.telemetry.bus import Telemetry

__all__ = ("Answer", "Failed", "LogSink", "Sent", "Sink", "WebhookSink", "build_sinks")

DEFAULT_NAME: Final = "log"


def build_sinks(settings: Mapping[str, SinkSettings], telemetry: Telemetry) -> tuple[Sink, ...]:
    """Give the configured sinks; where none is, one that writes to the log. Their URLs are hidden from now on."""
    if not settings:
        return (LogSink(DEFAULT_NAME, telemetry),)
    return tuple(_build(name, sink, telemetry) for name, sink in settings.items())


def _build(name: str, settings: SinkSettings, telemetry: Telemetry) -> Sink:
    match settings.kind:
        case "log":
            return LogSink(name, telemetry)
        case "webhook":
            with suppress(ConfigError):  # a file that can't be read now is read again at each try
                telemetry.redactor.add(*hidden_values(current_url(name, settings)))
            return WebhookSink(name, settings, telemetry.redactor)
        case _:
            assert_never(settings.kind)
