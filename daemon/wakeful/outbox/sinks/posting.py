"""A sink that posts: what all that speak HTTP have in common. How each speaks, and understands, is its `Dialect`.

Invariant: a message that can't be made into a request is given up; trouble on the way is tried again. What is said
about either shows the address as its host and a short hash.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Final

from wakeful.config import current_key, current_url
from wakeful.core.secrets import hidden_values, shown
from wakeful.core.settings import SinkSettings
from wakeful.errors import ConfigError
from wakeful.outbox.sinks.exchange import NotReached, Reply, Request, exchange
from wakeful.outbox.sinks.protocol import Answer, Failed
from wakeful.store.outbox import Delivery
from wakeful.telemetry.redaction import Redactor

JSON_TYPE: Final = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How a receiver is spoken to.

    `request` makes what is posted of a message and the sink's key (empty without one); it may raise ValueError for the
    message, ConfigError for the key. `judge` says what a reply means. `pace` is the least seconds between two messages.
    Of answers with a status in `reads`, and of all failures, the beginning of the body is read.
    """

    request: Callable[[Delivery, str], Request]
    judge: Callable[[Reply], Answer]
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

    async def send(self, delivery: Delivery) -> Answer:
        """Post it once."""
        try:
            url = current_url(self.name, self.settings) or self.dialect.address
            key = current_key(self.name, self.settings)
        except ConfigError as error:
            return Failed(reason=str(error))
        self.redactor.add(*hidden_values(url), *hidden_values(key))
        try:
            request = self.dialect.request(delivery, key)
        except ConfigError as error:
            return Failed(reason=f"sinks.{self.name}.key: {error}")
        except ValueError as error:
            return Failed(reason=f"no request can be made of it: {error}", permanent=True)
        try:
            reply = await self._exchanged(url, request)
        except NotReached as error:
            return Failed(reason=f"{shown(url)}: {error}")
        answer = self.dialect.judge(reply)
        return (
            replace(answer, reason=f"{shown(url)}: {answer.reason}") if isinstance(answer, Failed) else answer
        )

    async def _exchanged(self, url: str, request: Request) -> Reply:
        public_only = self.settings.addresses == "public"
        return await exchange(url, request, wanted=self.dialect.wants, public_only=public_only)
