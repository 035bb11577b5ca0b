"""What the settings of sinks and of the heartbeat may not have together: part of `core.rules`.

Invariant: no text of a problem holds a URL or a key.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from wakeful.core.secrets import SIGNING_PREFIX
from wakeful.core.settings import HeartbeatSettings, Settings, SinkSettings

MAIL_SCHEMES: Final = ("smtps", "smtp", "smtp+plain")
SHORTEST_SIGNING_BYTES: Final = 16

_WEB: Final = frozenset({"webhook", "teams", "slack", "discord", "pagerduty"})
_NEED_URL: Final = frozenset({"webhook", "teams", "slack", "discord", "email", "apprise"})
_WITH_KEY: Final = frozenset({"webhook", "pagerduty", "email"})
_WEB_SCHEMES: Final = ("http", "https")

_Problem = tuple[tuple[str, ...], str]


def sink_problems(settings: Settings) -> Iterator[_Problem]:
    """Give what is wrong: the settings that it is about, the first one named, and the text."""
    for name, sink in settings.sinks.items():
        path = f"sinks.{name}"
        yield from _address(path, sink)
        yield from _key(path, sink)
        yield from _letters(path, sink)
        if sink.addresses == "public" and sink.kind not in _WEB:
            yield (
                (f"{path}.addresses",),
                f'"public" says nothing for a sink of kind "{sink.kind}": leave it out',
            )
    yield from _heartbeat(settings.heartbeat)


def _address(path: str, sink: SinkSettings) -> Iterator[_Problem]:
    about = (f"{path}.url", f"{path}.url_file")
    given = sink.url is not None or sink.url_file is not None
    if sink.kind in _NEED_URL and not given:
        text = "a webhook" if sink.kind == "webhook" else f'a sink of kind "{sink.kind}"'
        yield about, f"{text} needs its url, or url_file that holds it"
    if sink.kind == "log" and given:
        yield about, 'a sink of kind "log" has no url'
    if sink.url is None:
        return
    if sink.kind == "email" and not is_address(sink.url, MAIL_SCHEMES):
        yield about[:1], 'must be a mail server, such as "smtp://user@mail.example.com:587" or "smtps://…"'
    if sink.kind not in ("email", "apprise") and not is_address(sink.url, _WEB_SCHEMES):
        yield about[:1], 'must be an address that begins with "https://" or "http://"'


def _key(path: str, sink: SinkSettings) -> Iterator[_Problem]:
    about = (f"{path}.key", f"{path}.key_file")
    given = sink.key is not None or sink.key_file is not None
    if sink.kind == "pagerduty" and not given:
        yield about, "PagerDuty needs the key of an integration, or key_file that holds it"
    if sink.kind not in _WITH_KEY and given:
        yield about, f'a sink of kind "{sink.kind}" has no key'
    if sink.kind == "webhook" and sink.key is not None and not all(map(_signs, sink.key.split())):
        yield about[:1], 'can sign nothing: make one by `echo "whsec_$(openssl rand -base64 32)"`'


def _signs(secret: str) -> bool:
    try:
        held = base64.b64decode(secret.removeprefix(SIGNING_PREFIX), validate=True)
    except ValueError:
        return False
    return len(held) >= SHORTEST_SIGNING_BYTES


def _letters(path: str, sink: SinkSettings) -> Iterator[_Problem]:
    if sink.kind == "email":
        if sink.sender is None:
            yield (f"{path}.sender",), "a letter needs a sender"
        if not sink.recipients:
            yield (f"{path}.recipients",), "a letter needs recipients"
        for one in (sink.sender or "a@b", *sink.recipients):
            if not _is_mailbox(one):
                yield (f"{path}.recipients", f"{path}.sender"), f"{one!r} is not an address of e-mail"
    elif sink.sender is not None or sink.recipients:
        yield (f"{path}.recipients", f"{path}.sender"), f'a sink of kind "{sink.kind}" sends no letters'


def _heartbeat(heartbeat: HeartbeatSettings) -> Iterator[_Problem]:
    if heartbeat.url is not None and not is_address(heartbeat.url, _WEB_SCHEMES):
        yield ("heartbeat.url",), 'must be an address that begins with "https://" or "http://"'


def is_address(url: str, schemes: tuple[str, ...]) -> bool:
    """Tell whether `url` has one of the schemes, a host, and a port that can be."""
    try:
        parts = urlsplit(url)
        return parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _is_mailbox(text: str) -> bool:
    address = text.rpartition("<")[2].rstrip("> ")
    name, at, domain = address.rpartition("@")
    return (
        bool(name and at and domain)
        and address.isascii()
        and text.isprintable()
        and not any(one in text for one in ",;\r\n")
    )
