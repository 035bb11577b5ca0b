"""Alerts by HTTP: one POST of the message to a URL.

Success is a status of 2xx and nothing else; its body is not waited for, and not shown: it may repeat the URL, which is
a secret. The header `webhook-id` is the same at every try, so that a receiver can notice a repeat. Redirects are not
followed, proxies and cookies of the environment not used; each try looks its host up anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

import aiohttp
from yarl import URL

from wakeful.config import current_url
from wakeful.core.secrets import hidden_values, shown
from wakeful.core.settings import SinkSettings
from wakeful.errors import ConfigError
from wakeful.outbox.sinks.protocol import Answer, Failed, Sent
from wakeful.outbox.sinks.retry_after import retry_after
from wakeful.store.outbox import Delivery
from wakeful.telemetry.redaction import Redactor

ID_HEADER: Final = "webhook-id"

# The same bytes would be refused again: too large, or not what is read there. Everything else may be a receiver that
# is being changed, so it is tried again.
_PERMANENT: Final = frozenset({413, 415, 422})
_NEVER_WRITTEN_SO: Final = frozenset(chr(code) for code in range(0x21)) | {"\x7f"}


@dataclass(frozen=True, slots=True)
class WebhookSink:
    """Posts each message to the URL of its settings, which is read again at each try where a file holds it."""

    name: str
    settings: SinkSettings = field(repr=False)
    redactor: Redactor = field(repr=False)
    pace: float = 0.0

    @property
    def timeout(self) -> float:
        """The bound of one try, in seconds."""
        return self.settings.timeout

    async def send(self, delivery: Delivery) -> Answer:
        """Post it once."""
        try:
            url = current_url(self.name, self.settings)
        except ConfigError as error:
            return Failed(reason=str(error))
        self.redactor.add(*hidden_values(url))
        try:
            return await self._post(url, delivery)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return Failed(reason=f"{shown(url)}: {_cause(error)}")

    async def _post(self, url: str, delivery: Delivery) -> Answer:
        headers = {
            ID_HEADER: str(delivery.delivery_id),
            "Content-Type": "application/json",
            "User-Agent": "wakeful",
        }
        async with (
            aiohttp.ClientSession(
                cookie_jar=aiohttp.DummyCookieJar(), timeout=aiohttp.ClientTimeout(total=None)
            ) as session,
            session.post(
                _address(url), data=delivery.body.encode(), headers=headers, allow_redirects=False
            ) as response,
        ):
            return _answer(response, url)


def _answer(response: aiohttp.ClientResponse, url: str) -> Answer:
    status = response.status
    if 200 <= status < 300:
        return Sent(_named(status))
    asked = retry_after(
        response.headers.get("Retry-After"),
        server_date=response.headers.get("Date"),
        now=datetime.now(UTC),
    )
    redirect = "; redirects are not followed" if 300 <= status < 400 else ""
    return Failed(
        reason=f"{shown(url)}: {_named(status)}{redirect}",
        retry_after=asked,
        permanent=status in _PERMANENT,
    )


def _named(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _cause(error: Exception) -> str:
    """Name what went wrong without the error's own text, which may hold the URL."""
    if isinstance(error, OSError) and error.strerror:
        return f"{type(error).__name__}: {error.strerror}"
    return type(error).__name__


def _address(url: str) -> URL:
    # As it was given, byte for byte: signatures stand in queries.
    given = url.strip()
    return URL(given, encoded=given.isascii() and _NEVER_WRITTEN_SO.isdisjoint(given))
