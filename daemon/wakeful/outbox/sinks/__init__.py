"""Where alerts are sent: one file a kind of sink, each by the protocol in `protocol.py`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final, assert_never

from wakeful.config import current_key, current_url
from wakeful.core.secrets import hidden_values
from wakeful.core.settings import SinkSettings
from wakeful.core.text import clean
from wakeful.errors import ConfigError
from wakeful.outbox.sinks.apprise import AppriseSink, check_installed
from wakeful.outbox.sinks.discord import DISCORD
from wakeful.outbox.sinks.email import EmailSink
from wakeful.outbox.sinks.log import LogSink
from wakeful.outbox.sinks.pagerduty import PAGERDUTY
from wakeful.outbox.sinks.posting import PostingSink
from wakeful.outbox.sinks.protocol import Answer, Failed, Sent, Sink
from wakeful.outbox.sinks.slack import SLACK
from wakeful.outbox.sinks.teams import TEAMS
from wakeful.outbox.sinks.unbuilt import UnbuiltSink
from wakeful.outbox.sinks.webhook import WEBHOOK
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import SINK_UNBUILT
from wakeful.telemetry.redaction import Redactor

__all__ = ("Answer", "Failed", "LogSink", "Sent", "Sink", "build_sinks")

DEFAULT_NAME: Final = "log"
REASON_BYTES: Final = 2000


def build_sinks(settings: Mapping[str, SinkSettings], telemetry: Telemetry) -> tuple[Sink, ...]:
    """Give the configured sinks; where none is, one that writes to the log. Their secrets are hidden from now on.

    Raises ConfigError where a kind needs an extra that is not installed. One that can't be made for a reason that
    nobody thought of keeps no other, and no daemon, from its work.
    """
    if not settings:
        return (LogSink(DEFAULT_NAME, telemetry),)
    return tuple(_built(name, sink, telemetry) for name, sink in settings.items())


def _built(name: str, settings: SinkSettings, telemetry: Telemetry) -> Sink:
    try:
        return _build(name, settings, telemetry)
    except ConfigError:
        raise
    except Exception as error:  # noqa: BLE001 -- a sink's code may raise anything
        telemetry.emit(SINK_UNBUILT, sink=name, error=error)
        reason = f"this sink could not be made: {type(error).__name__}: {clean(error, REASON_BYTES)}"
        return UnbuiltSink(name, reason)


def _build(name: str, settings: SinkSettings, telemetry: Telemetry) -> Sink:
    redactor = telemetry.redactor
    _hide(name, settings, redactor)
    match settings.kind:
        case "log":
            return LogSink(name, telemetry)
        case "webhook":
            return PostingSink(name, settings, redactor, WEBHOOK)
        case "teams":
            return PostingSink(name, settings, redactor, TEAMS)
        case "slack":
            return PostingSink(name, settings, redactor, SLACK)
        case "discord":
            return PostingSink(name, settings, redactor, DISCORD)
        case "pagerduty":
            return PostingSink(name, settings, redactor, PAGERDUTY)
        case "email":
            return EmailSink(name, settings, redactor)
        case "apprise":
            check_installed(name)
            return AppriseSink(name, settings, redactor)
        case _:
            assert_never(settings.kind)


def _hide(name: str, settings: SinkSettings, redactor: Redactor) -> None:
    with suppress(ConfigError):  # a file that can't be read now is read again at each try
        redactor.add(*hidden_values(current_url(name, settings)))
    with suppress(ConfigError):
        redactor.add(*hidden_values(current_key(name, settings)))
