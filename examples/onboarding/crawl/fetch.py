"""The only road to the network for a crawl: one GET at a time, polite, bounded and guarded.

Invariant: no request leaves before its host's robots.txt allowed it and the host's pause is over; none takes longer
than the time limit or brings more bytes than asked for; a redirect never leaves the site where it began; every
failure comes out as a ChannelTrouble. Parsing what came is left to `page`, `xmltext` and the channels.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import aiohttp
import anyio
from aiohttp.client_exceptions import (
    ClientConnectorCertificateError,
    ClientConnectorDNSError,
    ClientConnectorError,
)
from yarl import URL

from onboarding.crawl import urls
from onboarding.crawl.addresses import GuardedResolver, PrivateAddress, check_literal
from onboarding.crawl.robots import Robots, parse_robots, robots_without_file
from onboarding.crawl.trouble import ChannelTrouble
from onboarding.retry_after import parse_retry_after
from onboarding.settings import CrawlSettings

MOST_REDIRECTS: Final = 5
ROBOTS_BYTES: Final = 512 * 1024
_CHUNK: Final = 64 * 1024
_REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))
_FORBIDDEN: Final = frozenset((401, 403, 451))


@dataclass(frozen=True, slots=True)
class Want:
    """What an answer must be: its content type begins with one of `types`, its body holds at most `max_bytes`."""

    types: tuple[str, ...]
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer with status 200. `url` is where it came from in the end, `charset` what its header says."""

    url: URL
    content_type: str
    charset: str | None
    body: bytes
    status: int = 200


@dataclass(slots=True)
class _Host:
    """What this visit knows of one host."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    robots: Robots | None = None
    next_turn: float = 0.0


@asynccontextmanager
async def open_session(settings: CrawlSettings) -> AsyncIterator[aiohttp.ClientSession]:
    """The connections of all visits of this process: no cookies, no proxies from the environment, guarded look-ups."""
    resolver = GuardedResolver(
        aiohttp.ThreadedResolver(), connect_to=settings.connect_to, private_hosts=settings.private_hosts
    )
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(resolver=resolver, limit_per_host=settings.connections_per_host),
        timeout=aiohttp.ClientTimeout(total=settings.request_timeout),
        headers={"User-Agent": settings.user_agent},
        cookie_jar=aiohttp.DummyCookieJar(),
    ) as session:
        yield session


class Fetcher:
    """One visit: remembers each host's robots.txt and when its next request may go. Made anew for each job."""

    def __init__(self, session: aiohttp.ClientSession, settings: CrawlSettings) -> None:
        self._session = session
        self._settings = settings
        self._hosts: dict[URL, _Host] = {}

    async def get(self, url: URL, want: Want) -> Reply:
        """Fetch `url`, following redirects within its site. Raises ChannelTrouble."""
        current = url
        for _ in range(MOST_REDIRECTS + 1):
            await self._admit(current)
            answer = await self._request(current, want)
            if isinstance(answer, Reply):
                return answer
            current = _next_hop(answer, first=url)
        raise ChannelTrouble("http", f"{url} redirects more than {MOST_REDIRECTS} times")

    async def robots(self, url: URL) -> Robots:
        """The robots.txt of the host of `url`, read once a visit; a failure to read it is in the answer."""
        host = self._host(url)
        async with host.lock:
            if host.robots is None:
                host.robots = await self._read_robots(urls.origin(url))
        return host.robots

    async def refusal(self, url: URL) -> ChannelTrouble | None:
        """Why this visit must not fetch `url`; None when it may."""
        return (await self.robots(url)).refusal(url, self._settings.user_agent)

    async def _admit(self, url: URL) -> None:
        refusal = await self.refusal(url)
        if refusal is not None:
            raise refusal
        await self._wait_for_turn(url)

    async def _wait_for_turn(self, url: URL) -> None:
        host = self._host(url)
        asked = host.robots.delay(self._settings.user_agent) if host.robots else 0.0
        now = anyio.current_time()
        turn = max(now, host.next_turn)
        host.next_turn = turn + max(asked, self._settings.delay)
        await anyio.sleep(turn - now)

    async def _read_robots(self, origin: URL) -> Robots:
        want = Want(types=("",), max_bytes=ROBOTS_BYTES)
        current = origin / "robots.txt"
        try:
            for _ in range(MOST_REDIRECTS + 1):
                answer = await self._request(current, want)
                if isinstance(answer, Reply):
                    return parse_robots(answer.body.decode("utf-8", "replace"), answer.status)
                current = _next_hop(answer, first=origin)
        except ChannelTrouble as trouble:
            return robots_without_file(trouble)
        return Robots(http_status=404)

    async def _request(self, url: URL, want: Want) -> Reply | URL:
        """One request: the answer, or where it redirects to."""
        with _translated(url, self._settings):
            check_literal(url.host or "", self._settings.private_hosts)
            async with self._session.get(url, allow_redirects=False) as response:
                if response.status in _REDIRECTS:
                    return _target(url, response)
                _check_status(response)
                _check_type(response, want)
                body = await _read_body(response, want.max_bytes)
                return Reply(url=url, content_type=response.content_type, charset=response.charset, body=body)

    def _host(self, url: URL) -> _Host:
        return self._hosts.setdefault(urls.origin(url), _Host())


def _next_hop(target: URL, first: URL) -> URL:
    if not urls.same_site(target, first):
        raise ChannelTrouble("off_site", f"redirects to another site, {target.origin()}")
    return target


def _target(url: URL, response: aiohttp.ClientResponse) -> URL:
    target = urls.join(url, response.headers.get("Location", ""))
    if target is None:
        raise ChannelTrouble("http", f"{url} redirects to no web address", http_status=response.status)
    return target


def _check_status(response: aiohttp.ClientResponse) -> None:
    status = response.status
    if status == 200:
        return
    if status == 429:
        pause = parse_retry_after(response.headers.get("Retry-After"), datetime.now(UTC))
        told = "no Retry-After" if pause is None else f"Retry-After {pause:g} s"
        raise ChannelTrouble(
            "rate_limited", f"too many requests, {told}", http_status=status, retry_after=pause
        )
    if status in _FORBIDDEN:
        raise ChannelTrouble("forbidden", f"{response.url} answers {status}", http_status=status)
    raise ChannelTrouble("http", f"{response.url} answers {status}", http_status=status)


def _check_type(response: aiohttp.ClientResponse, want: Want) -> None:
    if not response.content_type.startswith(want.types):
        raise ChannelTrouble(
            "content_type", f"{response.url} is {response.content_type}", http_status=response.status
        )


async def _read_body(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK):
        body += chunk
        if len(body) > max_bytes:
            raise ChannelTrouble(
                "too_large", f"{response.url} has more than {max_bytes} bytes", http_status=response.status
            )
    return bytes(body)


@contextmanager
def _translated(url: URL, settings: CrawlSettings) -> Iterator[None]:
    """Turn what aiohttp and the system raise into a ChannelTrouble, here and nowhere else."""
    try:
        yield
    except PrivateAddress as error:
        raise ChannelTrouble("private_address", str(error)) from error
    except TimeoutError as error:
        raise ChannelTrouble("timeout", f"{url} gave no answer in {settings.request_timeout:g} s") from error
    except ClientConnectorDNSError as error:
        raise _look_up_trouble(url, error.os_error) from error
    except ClientConnectorCertificateError as error:
        raise ChannelTrouble("tls", f"the certificate of {url.host} is not accepted") from error
    except aiohttp.ClientSSLError as error:
        raise ChannelTrouble("tls", f"{url.host} speaks no TLS that we accept") from error
    except ClientConnectorError as error:
        raise _connect_trouble(url, error.os_error) from error
    except aiohttp.ClientError as error:
        raise ChannelTrouble("broken", f"the answer of {url} broke off ({type(error).__name__})") from error


def _look_up_trouble(url: URL, error: OSError) -> ChannelTrouble:
    if isinstance(error, PrivateAddress):
        return ChannelTrouble("private_address", str(error))
    return ChannelTrouble("dns", f"the name {url.host} is not known")


def _connect_trouble(url: URL, error: OSError) -> ChannelTrouble:
    if isinstance(error, ConnectionRefusedError):
        return ChannelTrouble("refused", f"{url.host} takes no connection")
    return ChannelTrouble("unreachable", f"{url.host} can't be reached: {error.strerror or error}")
