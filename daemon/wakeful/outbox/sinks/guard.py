"""Which addresses a sink may lead to, where its URL comes from people who may not see the inside of the network (F79).

Invariant: judged is the address that is connected to, as it was resolved for this very connection, so that a name that
changes between the look and the connection does not matter. One address inside among several refuses the name.
"""

from __future__ import annotations

import errno
import socket
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final

from aiohttp import ThreadedResolver
from aiohttp.abc import AbstractResolver, ResolveResult

NOT_PUBLIC: Final = "it leads to an address that is not public"

# Of IPv6 only this is given out; the rest is reserved, or was retired and may lead inside.
_GIVEN_OUT: Final = IPv6Network("2000::/3")
_TRANSLATED: Final = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))


class PublicResolver(AbstractResolver):
    """Resolves names, and refuses those that lead inside, as an OSError."""

    def __init__(self) -> None:
        self._resolver = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Give the addresses of `host`. Raises OSError where one of them is not public."""
        found = await self._resolver.resolve(host, port, family)
        if not found or not all(is_public(one["host"]) for one in found):
            raise OSError(errno.EACCES, NOT_PUBLIC)
        return found

    async def close(self) -> None:
        """Let go of what resolving took."""
        await self._resolver.close()


def refuse_inside(host: str | None) -> None:
    """Raise OSError where `host` is itself an address that is not public: such a one is never resolved."""
    try:
        address = ip_address((host or "").partition("%")[0])
    except ValueError:
        return
    if not is_public(str(address)):
        raise OSError(errno.EACCES, NOT_PUBLIC)


def is_public(text: str) -> bool:
    """Tell whether an address is one of the internet, through whatever form it is written in."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return False
    inner = _within(address)
    if isinstance(address, IPv6Address) and address not in _GIVEN_OUT and not inner:
        return False
    return all(map(_is_outside, (address, *inner)))


def _is_outside(address: IPv4Address | IPv6Address) -> bool:
    reserved = isinstance(address, IPv4Address) and address.is_reserved
    return address.is_global and not address.is_multicast and not reserved


def _within(address: IPv4Address | IPv6Address) -> tuple[IPv4Address, ...]:
    """Give the addresses of IPv4 that an address of IPv6 is only another way to reach."""
    if isinstance(address, IPv4Address):
        return ()
    teredo = address.teredo or ()
    translated = (
        IPv4Address(int(address) & 0xFFFFFFFF) if any(address in one for one in _TRANSLATED) else None
    )
    found = (address.ipv4_mapped, address.sixtofour, translated, *teredo)
    return tuple(one for one in found if one is not None)
