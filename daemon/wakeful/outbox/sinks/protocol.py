"""What a sink is: a place that messages are sent to. Whoever writes one of their own needs this file and no other.

Invariant: a sink sends one message once and says what became of it; leases, retries and marks are the dispatcher's. It
may raise (counted as a failed try), and is cancelled when its `timeout` is over. What it says holds no secret, and
nothing of what the receiver answered but what this code knows: an answer may repeat the address, which is a secret.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from wakeful.store.outbox import Delivery


@dataclass(frozen=True, slots=True)
class Sent:
    """The receiver has it. `answer` is what it said, for people."""

    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The receiver does not have it, as far as is known.

    `retry_after` is the delay in seconds that it asked for: the whole sink is left alone for so long. `permanent`:
    these bytes will never be accepted, so this message is given up. `gone`: nothing will be accepted here, ever: the
    address was retired, which is nothing that this message did. It is kept, and the sink closed until a restart, or
    until its address is another. `rejected`: the address refuses what it is sent, as one does that was retired and does
    not say so: often enough in a row, it is closed, too. `excused`: nothing was tried, so no try is spent.
    """

    reason: str
    retry_after: float | None = None
    permanent: bool = False
    gone: bool = False
    rejected: bool = False
    excused: bool = False


Answer = Sent | Failed


@runtime_checkable
class Addressed(Protocol):
    """A sink that can tell whether its address is another one now. Not every sink is one."""

    def address(self) -> str | None:
        """Give what tells its address, and key, from others, and does not show them; None where it is not known now."""
        ...


class Sink(Protocol):
    """One receiver of messages."""

    @property
    def name(self) -> str:
        """Its name in the configuration."""
        ...

    @property
    def timeout(self) -> float:
        """Bound of one try, in seconds."""
        ...

    @property
    def pace(self) -> float:
        """The least seconds between two messages, by whomever; 0 for no bound."""
        ...

    async def send(self, delivery: Delivery) -> Answer:
        """Send it once. The id and the body are the same at every try, and so are the bytes that are made of them."""
        ...
