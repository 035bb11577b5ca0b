"""What a DSN must look like, as far as it can be seen without connecting.

Invariant: what is said about a DSN repeats none of it but the names and values of options that hold no secret: the rest
may be a piece of the password. What its parts mean is the driver's to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

_SCHEME: Final = re.compile(r"postgres(ql)?(\+\w+)?://")
_WANTED: Final = 'must begin with "postgresql://", as in postgresql://user:password@host:5432/name'
_UNREADABLE: Final = (
    "can't be read; write special characters of a password in percent form: # as %23, / as %2F, @ as %40"
)
_PORT: Final = "a port is a number from 1 to 65535"
_LARGEST_PORT: Final = 65535
_IN_BRACKETS: Final = re.compile(r"\[[^\]]+\](?::(?P<port>.*))?")
_CHOICES: Final = {
    "sslmode": ("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    "target_session_attrs": ("any", "primary", "standby", "read-write", "read-only", "prefer-standby"),
}


def dsn_problem(dsn: str) -> str | None:
    """Give what is wrong with a DSN, None where nothing is seen to be."""
    if not _SCHEME.match(dsn):
        return _WANTED
    try:
        parts = urlsplit(dsn)
    except ValueError:
        return _UNREADABLE
    if parts.fragment or "#" in dsn:
        return _UNREADABLE
    options = dict(parse_qsl(parts.query))
    ports = [*_ports_of(parts.netloc.rpartition("@")[2]), *options.get("port", "").split(",")]
    if any(port is None for port in ports):
        return _UNREADABLE
    if not all(_is_port(port) for port in ports if port):
        # Without an @ what looks like a port may be a password that a / has cut off.
        return _PORT if "@" in parts.netloc or "@" not in dsn else _UNREADABLE
    for option, choices in _CHOICES.items():
        if options.get(option, choices[0]) not in choices:
            return f"{option} is one of {', '.join(choices)}"
    return None


def _ports_of(hosts: str) -> Iterator[str | None]:
    """Give the port of each host, "" where it has none, None where the host can't be read."""
    for host in hosts.split(","):
        if host.startswith("["):
            match = _IN_BRACKETS.fullmatch(host)
            yield None if match is None else unquote(match["port"] or "")
        else:
            yield unquote(host.partition(":")[2])


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdecimal() and 0 < int(text[:6]) <= _LARGEST_PORT
