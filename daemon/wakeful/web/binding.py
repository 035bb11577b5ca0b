"""Listening sockets: on every address of a host, on one port.

A taken port is said plainly, or the next free one is found.

Invariant: either all sockets are bound or none is left open. `ConfigError` says what to do, since what is wrong is
always in the configuration: another process has the port, or the host is not this machine's.
"""

from __future__ import annotations

import errno
import socket
from typing import Final

import anyio

from wakeful.core.settings import HttpSettings
from wakeful.errors import ConfigError

TRIES: Final = 100
LAST_PORT: Final = 65535
_BACKLOG: Final = 128
_TAKEN: Final = frozenset({errno.EADDRINUSE, errno.EACCES})

_Address = tuple[socket.AddressFamily, str]


async def bind(settings: HttpSettings) -> list[socket.socket]:
    """Listen on the port that is wanted. Raises ConfigError."""
    try:
        return _listen(await _addresses(settings.host), settings.port)
    except OSError as error:
        raise ConfigError((_problem(settings, error),)) from None


async def bind_near(settings: HttpSettings) -> list[socket.socket]:
    """Listen on the port that is wanted, else on the next free one, else on any. Raises ConfigError."""
    addresses = await _addresses(settings.host)
    for port in (*range(settings.port, min(settings.port + TRIES, LAST_PORT)), 0):
        try:
            return _listen(addresses, port)
        except OSError as error:
            if error.errno not in _TAKEN or port == 0:
                raise ConfigError((_problem(settings, error),)) from None
    raise AssertionError("port 0 either binds or raises")


def port_of(sockets: list[socket.socket]) -> int:
    """Give the port that the sockets listen on."""
    return int(sockets[0].getsockname()[1])


async def _addresses(host: str) -> list[_Address]:
    try:
        found = await anyio.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError((f"http.host: {host!r} is not an address of this machine: {reason}",)) from None
    return list(dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found))


def _listen(addresses: list[_Address], port: int) -> list[socket.socket]:
    """Listen on every address; with port 0 on the one that the first got."""
    sockets: list[socket.socket] = []
    try:
        for family, address in addresses:
            both = family is socket.AF_INET6 and address == "::" and socket.has_dualstack_ipv6()
            wanted = port_of(sockets) if sockets else port
            sockets.append(
                socket.create_server((address, wanted), family=family, backlog=_BACKLOG, dualstack_ipv6=both)
            )
    except OSError:
        for opened in sockets:
            opened.close()
        raise
    return sockets


def _problem(settings: HttpSettings, error: OSError) -> str:
    where = f"{settings.host}:{settings.port}"
    if error.errno == errno.EADDRINUSE:
        mend = "set http.port (WAKEFUL__HTTP__PORT) to a free one, or to 0 for any"
        return f"http.port: {where} is taken by another process; {mend}"
    if error.errno == errno.EACCES:
        return f"http.port: {where} may not be used by this user; set http.port to 1024 or more"
    return f"http.host: can't listen on {where}: {error.strerror or error}"
