"""Where a host name may lead: the guard that keeps a crawler out of the network that it runs in.

Invariant: a connection is made only to an address that was checked here, so a name that changes its answer between
look-up and connect gains nothing. A literal address in a URL passes no resolver: `check_literal` is for those.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping
from typing import Final

from aiohttp.abc import AbstractResolver, ResolveResult

_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


class PrivateAddress(OSError):
    """The host leads to a private, loopback or otherwise special address, and is not listed as allowed."""


class GuardedResolver(AbstractResolver):
    """Looks names up with `inner`, after `connect_to`, and refuses what is not public (aiohttp asks for the base)."""

    def __init__(
        self,
        inner: AbstractResolver,
        *,
        connect_to: Mapping[str, tuple[str, int]],
        private_hosts: frozenset[str],
    ) -> None:
        self._inner = inner
        self._connect_to = connect_to
        self._private_hosts = private_hosts

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        name = host.lower().rstrip(".")
        target = connect_target(name, self._connect_to)
        if target is not None:
            return [_told(host, *target)]
        if name == "invalid" or name.endswith(".invalid"):
            # RFC 6761: such a name never exists. Said here, because not every resolver answers it at once.
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        answers = await self._look_up(host, port, family)
        if name in self._private_hosts:
            return answers
        public = [answer for answer in answers if is_public(answer["host"])]
        if not public:
            raise PrivateAddress(f"{host} leads to a private address")
        return public

    async def _look_up(self, host: str, port: int, family: socket.AddressFamily) -> list[ResolveResult]:
        try:
            return await self._inner.resolve(host, port, family)
        except UnicodeError as error:
            # A label of more than 63 letters, say: the system's codec raises no OSError for it.
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known") from error

    async def close(self) -> None:
        await self._inner.close()


def check_literal(host: str, private_hosts: frozenset[str]) -> None:
    """Raise PrivateAddress when `host` is itself an address, not public and not allowed."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return
    if host not in private_hosts and not is_public(host):
        raise PrivateAddress(f"{host} is a private address")


def connect_target(host: str, connect_to: Mapping[str, tuple[str, int]]) -> tuple[str, int] | None:
    """The entry for `host`: its own, else that of the nearest `*.parent`."""
    if host in connect_to:
        return connect_to[host]
    parent = host
    while "." in parent:
        parent = parent.partition(".")[2]
        if f"*.{parent}" in connect_to:
            return connect_to[f"*.{parent}"]
    return None


def is_public(text: str) -> bool:
    """Whether an address may be crawled; an IPv4 address that is wrapped in an IPv6 one is unwrapped first."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        wrapped = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            wrapped = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        if wrapped is not None:
            return is_public(str(wrapped))
    return address.is_global and not address.is_multicast


def _told(host: str, address: str, port: int) -> ResolveResult:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return ResolveResult(
        hostname=host, host=address, port=port, family=family, proto=0, flags=socket.AI_NUMERICHOST
    )
