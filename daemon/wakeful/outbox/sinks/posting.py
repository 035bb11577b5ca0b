"""A sink that posts: what all that speak HTTP have in common. How each speaks, and understands, is its `Dialect`.

Invariant: a message that can't be made into a request is given up; trouble on the way is tried again; one that is too
large for its receiver goes out as the least that it can say. What is said about any shows the address as its host and a
short hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Final

from wakeful.config import current_key, current_url
from wakeful.core.secrets import hidden_values, shown
from wakeful.core.settings import SinkSettings
from wakeful.errors import ConfigError
from wakeful.outbox.sinks.exchange import NotReached, Reply, Request, exchange
from wakeful.outbox.sinks.protocol import Answer, Failed
from wakeful.store.outbox import Delivery
from wakeful.telemetry.redaction import Redactor

_HASH_DIGITS: Final = 16
JSON_TYPE: Final = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How a receiver is spoken to.

    `request` makes what is posted of a message and the sink's key (empty without one); it may raise ValueError for the
    message, ConfigError for the key. `judge` says what a reply means. `pace` is the least seconds between two messages.
    Of answers with a status in `reads`, and of all failures, the beginning of the body is read. Where a reply is
    `too_large`, what `smaller` makes of the message is posted in its place, once, if it is smaller.
    """

    request: Callable[[Delivery, str], Request]
    judge: Callable[[Reply], Answer]
    smaller: Callable[[Delivery, str], Request] | None = None
    too_large: Callable[[Reply], bool] = lambda reply: reply.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    pace: float = 0.0
    reads: AbstractSet[int] = frozenset()
    address: str = ""

    def wants(self, status: int) -> bool:
        """Whether the body of an answer with this status is read."""
        return status in self.reads or status >= 400


@dataclass(frozen=True, slots=True)
class PostingSink:
    """Posts each message to the URL of its settings, which is read again at each try where a file holds it."""

    name: str
    settings: SinkSettings = field(repr=False)
    redactor: Redactor = field(repr=False)
    dialect: Dialect

    @property
    def timeout(self) -> float:
        """The bound of one try, in seconds."""
        return self.settings.timeout

    @property
    def pace(self) -> float:
        """The least seconds between two messages."""
        return self.dialect.pace

    def address(self) -> str | None:
        """Give a hash of address and key as they are now; None where they can't be read."""
        try:
            told = f"{self._url()}\0{current_key(self.name, self.settings)}"
        except ConfigError:
            return None
        return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]

    def _url(self) -> str:
        return current_url(self.name, self.settings) or self.dialect.address

    async def send(self, delivery: Delivery) -> Answer:
        """Post it once."""
        try:
            url, key = self._url(), current_key(self.name, self.settings)
        except ConfigError as error:
            return Failed(reason=str(error), excused=True)
        self.redactor.add(*hidden_values(url), *hidden_values(key))
        try:
            request = self.dialect.request(delivery, key)
        except ConfigError as error:
            return Failed(reason=f"sinks.{self.name}.key: {error}", excused=True)
        except Exception as error:  # noqa: BLE001 -- a dialect's rendering may raise anything, and would do so again
            what = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
            return Failed(reason=f"no request can be made of it: {what}", permanent=True)
        try:
            reply = await self._exchanged(url, request)
            if self.dialect.too_large(reply):
                reply = await self._with_less(url, delivery, key=key, refused=request) or reply
        except NotReached as error:
            return Failed(reason=f"{shown(url)}: {error}")
        answer = self.dialect.judge(reply)
        return (
            replace(answer, reason=f"{shown(url)}: {answer.reason}") if isinstance(answer, Failed) else answer
        )

    async def _with_less(self, url: str, delivery: Delivery, *, key: str, refused: Request) -> Reply | None:
        """Post less in the place of what was refused for its size; None where there is no less."""
        less = None if self.dialect.smaller is None else self.dialect.smaller(delivery, key)
        if less is None or len(less.body) >= len(refused.body):
            return None
        return await self._exchanged(url, less)

    async def _exchanged(self, url: str, request: Request) -> Reply:
        public_only = self.settings.addresses == "public"
        return await exchange(url, request, wanted=self.dialect.wants, public_only=public_only)
