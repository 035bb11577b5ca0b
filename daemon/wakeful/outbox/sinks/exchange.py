"""One request to an address and the beginning of its answer.

Invariant: at most one request leaves, to the address that was given and nowhere else: redirects are not followed,
proxies and cookies of the environment not used, and each try looks its host up anew. Of an answer at most
`LARGEST_ANSWER` bytes are read, for at most `BODY_SECONDS`, and only where somebody wants them. The end of the whole is
its caller's to set.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import aiohttp
import anyio
from multidict import CIMultiDictProxy
from yarl import URL

from wakeful.outbox.sinks.guard import PublicResolver, refuse_inside

LARGEST_ANSWER: Final = 4096
BODY_SECONDS: Final = 5.0

# By the codes of OpenSSL.
_CERTIFICATES: Final[Mapping[int, str]] = {
    9: "it is not valid yet, by the clock of this machine",
    10: "it has expired",
    18: "it is signed by itself",
    62: "it is that of another host",
    64: "it is that of another address",
}
_NEVER_WRITTEN_SO: Final = frozenset(chr(code) for code in range(0x21)) | {"\x7f"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is sent: the same body at every try; headers may have the time in them."""

    body: bytes
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came back. `text` is the beginning of the body where it was wanted; `whole`: there is no more of it."""

    status: int
    headers: CIMultiDictProxy[str]
    text: str = ""
    whole: bool = False

    @property
    def is_page(self) -> bool:
        """Whether this is a page for people, such as one to log in, and not what a vendor answers."""
        content = self.headers.get("Content-Type", "").lower()
        return "html" in content or self.text.lstrip()[:1] == "<"


class NotReached(Exception):
    """No answer came, or no request could be made; its text says why, and holds nothing of the address."""


async def exchange(
    url: str,
    request: Request | None,
    *,
    wanted: Callable[[int], bool] = lambda _status: False,
    public_only: bool = False,
) -> Reply:
    """Post the request, or get where there is none. Raises NotReached.

    `wanted` says by the status whether the body is read; `public_only` refuses addresses inside.
    """
    try:
        return await _exchanged(url, request, wanted, public_only=public_only)
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise NotReached(cause(error)) from None


async def _exchanged(
    url: str, request: Request | None, wanted: Callable[[int], bool], *, public_only: bool
) -> Reply:
    address = _address(url)
    if public_only:
        refuse_inside(address.host)
    method, body, headers = ("GET", None, {}) if request is None else ("POST", request.body, request.headers)
    sent = {"User-Agent": "wakeful", "Accept-Encoding": "identity", **headers}
    async with (
        _session(public_only=public_only) as session,
        session.request(method, address, data=body, headers=sent, allow_redirects=False) as response,
    ):
        if not wanted(response.status):
            return Reply(status=response.status, headers=response.headers)
        text, whole = await _beginning(response)
        return Reply(status=response.status, headers=response.headers, text=text, whole=whole)


def cause(error: Exception) -> str:
    """Name what went wrong without the error's own text, which may hold the URL."""
    certificate = _certificate_error(error)
    if certificate is not None:
        why = _CERTIFICATES.get(certificate.verify_code, "nobody who is trusted here has signed it")
        return f"its certificate is not accepted: {why}"
    if isinstance(error, OSError) and error.strerror:
        return f"{type(error).__name__}: {error.strerror}"
    return type(error).__name__


def _certificate_error(error: BaseException) -> ssl.SSLCertVerificationError | None:
    found: BaseException | None = getattr(error, "certificate_error", error)
    while found is not None and not isinstance(found, ssl.SSLCertVerificationError):
        found = found.__cause__
    return found


@asynccontextmanager
async def _session(*, public_only: bool) -> AsyncIterator[aiohttp.ClientSession]:
    resolver = PublicResolver() if public_only else aiohttp.ThreadedResolver()
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(resolver=resolver, use_dns_cache=False),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        auto_decompress=False,
    ) as session:
        yield session


async def _beginning(response: aiohttp.ClientResponse) -> tuple[str, bool]:
    """Read the beginning of a body; one that breaks off or does not end is not whole."""
    found, whole = bytearray(), False
    with anyio.move_on_after(BODY_SECONDS):
        try:
            while len(found) < LARGEST_ANSWER and not whole:
                chunk = await response.content.read(LARGEST_ANSWER - len(found))
                found += chunk
                whole = not chunk
        except (aiohttp.ClientError, OSError):
            whole = False
    return bytes(found).decode("utf-8", errors="replace"), whole


def _address(url: str) -> URL:
    # As it was given, byte for byte: signatures stand in queries.
    given = url.strip()
    return URL(given, encoded=given.isascii() and _NEVER_WRITTEN_SO.isdisjoint(given))
