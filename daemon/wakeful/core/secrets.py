"""Which settings and which parts of a payload are secret, and how settings are shown to people.

Invariant: what `shown` gives holds neither a password nor the path of a webhook, which is a key by itself
(F79). Reading the files that secrets stand in is for `wakeful.config`, keeping the values out of logs for
`telemetry.redaction`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from wakeful.core.settings import Settings

HIDDEN: Final = "***"
SIGNING_PREFIX: Final = "whsec_"
# Schemes whose host is an address; that of others, such as Apprise's pbul://TOKEN, may be the key itself.
HOST_SCHEMES: Final = frozenset({"http", "https", "smtp", "smtps", "smtp+plain"})
SHORTEST_OF_SEVERAL: Final = 20  # keys with blanks between; words of a password are shorter
SHORTEST_PATH: Final = 8  # the path of a webhook that is a key; "/" or "/hook" is none

_PASSWORD_KEYS: Final = frozenset({"password", "sslpassword", "passwd"})
_PASSWORD_OPTION: Final = re.compile(r"(?<=[?&])((?:ssl)?password|passwd)=[^&#]*", re.IGNORECASE)
# Up to the last @: a password in which / ? # were not written in percent form is hidden all the same.
_USER_INFO: Final = re.compile(r"(?<=://)(.*)@", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """One secret setting: its value, or the file that holds it; both are None where it is not given."""

    dotted: str
    value: str | None
    file: str | None


def secrets_of(settings: Settings) -> Iterator[Secret]:
    """Give all secret settings, given or not."""
    database = settings.database
    yield Secret(dotted="database.dsn", value=database.dsn, file=database.dsn_file)
    yield Secret(dotted="database.listen_dsn", value=database.listen_dsn, file=database.listen_dsn_file)
    for name, sink in settings.sinks.items():
        yield Secret(dotted=f"sinks.{name}.url", value=sink.url, file=sink.url_file)
        yield Secret(dotted=f"sinks.{name}.key", value=sink.key, file=sink.key_file)
    alerts = settings.alerts
    yield Secret(dotted="alerts.link_key", value=alerts.link_key, file=alerts.link_key_file)
    yield Secret(dotted="heartbeat.url", value=settings.heartbeat.url, file=settings.heartbeat.url_file)


def hidden_values(text: str) -> frozenset[str]:
    """Give the texts to hide of a DSN (its passwords, however written), of a URL (all but its host) or of a key."""
    if text.startswith("postgres"):
        passwords = _passwords(text)
        return frozenset(form for password in passwords for form in _spellings(password)) - {""}
    return frozenset({text, *_signing_secrets(text), *_one_of_several(text), *_keys_in(text)}) - {""}


def shown(text: str) -> str:
    """Give a DSN without its password, or a URL as its host and a hash that tells it from others; of a key nothing."""
    if text.startswith("postgres"):
        return _PASSWORD_OPTION.sub(rf"\1={HIDDEN}", _USER_INFO.sub(_without_password, text, count=1))
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
    except ValueError:
        return f"{HIDDEN} ({digest})"
    if not host:
        return HIDDEN
    if parts.scheme not in HOST_SCHEMES:
        return f"{HIDDEN} ({digest})"
    return f"{parts.scheme}://{host}/{HIDDEN} ({digest})"


def values_at(payload: object, paths: Iterable[str]) -> frozenset[str]:
    """Give the texts to hide of a payload: all that stands at its secret paths (parts joined by dots), names too."""
    found: set[str] = set()
    for path in paths:
        found.update(_texts_in(_at(payload, path.split("."))))
    return frozenset(found)


def _at(value: object, parts: list[str]) -> object:
    for part in parts:
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value


def _texts_in(value: object) -> Iterator[str]:
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Mapping):
            waiting.extend(node.keys())
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
        elif isinstance(node, str):
            # As it is, and as it stands in a repr or in JSON.
            yield from (
                node,
                repr(node)[1:-1],
                json.dumps(node)[1:-1],
                json.dumps(node, ensure_ascii=False)[1:-1],
            )
        elif node is not None and not isinstance(node, bool):
            yield str(node)


def _without_password(match: re.Match[str]) -> str:
    user, colon, _ = match[1].partition(":")
    return f"{user}:{HIDDEN}@" if colon else f"{user}@"


def _passwords(dsn: str) -> Iterator[str]:
    user_info = _USER_INFO.search(dsn)
    if user_info:
        yield user_info[1].partition(":")[2]
    query = dsn.partition("?")[2].partition("#")[0]
    yield from (value for key, value in parse_qsl(query) if key.lower() in _PASSWORD_KEYS)


def _spellings(secret: str) -> tuple[str, ...]:
    decoded = unquote(secret)
    return secret, decoded, quote(decoded, safe="")


def _signing_secrets(text: str) -> Iterator[str]:
    for one in text.split():
        if one.startswith(SIGNING_PREFIX):
            yield one
            yield one.removeprefix(SIGNING_PREFIX)


def _one_of_several(text: str) -> Iterator[str]:
    yield from (one for one in text.split() if len(one) >= SHORTEST_OF_SEVERAL)


def _keys_in(url: str) -> Iterator[str]:
    try:
        parts = urlsplit(url)
    except ValueError:
        return
    tail = url.partition(parts.netloc)[2] if parts.netloc else ""
    if len(tail) >= SHORTEST_PATH:
        yield tail
        yield unquote(tail)
    if parts.scheme in HOST_SCHEMES:  # the signature of a webhook, or its token, may be told by itself
        words = (*parts.path.split("/"), *(value for _, value in parse_qsl(parts.query)))
        yield from (form for word in words if len(word) >= SHORTEST_OF_SEVERAL for form in _spellings(word))
    if parts.password:
        yield from _spellings(parts.password)
