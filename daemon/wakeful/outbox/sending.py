"""One message to one sink: sent within its time, then marked, postponed or given up.

Invariant: what the receiver accepted is marked, through an outage if need be; what it did not is tried again later, up
to the limit, and then an event says so. A message that is refused as it is, or that no code can render, goes out once
more without its details before it is given up. A sink that raises or hangs costs its own try; one that asks for a
pause, or is gone, is left alone by the whole fleet, and keeps what waits for it.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final, TypeVar, assert_never

import anyio

from wakeful.aio.wakeup import Wakeup
from wakeful.core import backoff
from wakeful.core.text import clean
from wakeful.errors import StoreUnavailable
from wakeful.outbox.bare import without_details
from wakeful.outbox.guarding import attempted
from wakeful.outbox.sinks.protocol import Addressed, Answer, Failed, Sent, Sink
from wakeful.store import alerts, outbox
from wakeful.store.database import Database
from wakeful.store.outbox import Delivery
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import (
    OUTBOX_BARED,
    OUTBOX_DELIVERED,
    OUTBOX_FAILED,
    OUTBOX_GAVE_UP,
    SINK_CLOSED,
)

T = TypeVar("T")

ANSWER_LIMIT_BYTES: Final = 500
RAISED_LIMIT_BYTES: Final = 16_384
CLOSED_SECONDS: Final = (
    1.0  # until a message is due again that found its sink gone; it waits for more than that
)
RAISES_WITH_DETAILS: Final = 3  # a sink that raises so often is given the message without its details
SENDS_AT_ONCE: Final = 4
# How much longer a lease is than the sink's time: what connecting to the database and marking may take.
MARGIN_SECONDS: Final = 20.0


@dataclass(slots=True)
class Post:
    """A sink, and how many more messages it may be given now. Used on the event loop only."""

    sink: Sink
    most: int = SENDS_AT_ONCE
    room: int = SENDS_AT_ONCE

    @property
    def pace(self) -> float:
        """The least seconds between two messages to this sink, whoever sends them."""
        return self.sink.pace

    @property
    def address(self) -> str | None:
        """What tells its address from another, where that is known."""
        return self.sink.address() if isinstance(self.sink, Addressed) else None

    @property
    def lease_seconds(self) -> float:
        """How long a message is ours once it is taken for this sink."""
        return self.sink.timeout + MARGIN_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """Sends what was leased. `attempts` is the most tries of one message; `done` is rung after each."""

    database: Database
    telemetry: Telemetry
    attempts: int
    done: Wakeup

    async def send(self, post: Post, delivery: Delivery) -> None:
        """Send one message and write down what became of it; it counts against the sink's room until then."""
        try:
            await attempted("send", partial(self._send, post, delivery), None, self.telemetry)
        finally:
            post.room += 1
            self.done.ring()

    async def _send(self, post: Post, delivery: Delivery) -> None:
        started = anyio.current_time()
        answer = await self._answer(post.sink, delivery)
        if isinstance(answer, Failed) and answer.rejected:
            await self._count_refusal(post, answer.reason)
        await self._settle(post, delivery, answer, seconds=anyio.current_time() - started)

    async def _answer(self, sink: Sink, delivery: Delivery) -> Answer:
        with anyio.move_on_after(sink.timeout):
            try:
                answer = await sink.send(delivery)
            except Exception as error:  # noqa: BLE001 -- a sink's code may raise anything
                # Shortened only when it is shown: half a secret would not be known for one.
                return Failed(
                    reason=f"the sink raised {type(error).__name__}: {clean(error, RAISED_LIMIT_BYTES)}",
                    permanent=not delivery.bare and _spent(delivery) >= RAISES_WITH_DETAILS,
                )
            if not isinstance(answer, Sent | Failed):
                return Failed(reason="the sink gave something that is no answer")
            return answer
        return Failed(reason=f"no answer within {sink.timeout:g} s")

    async def _settle(self, post: Post, delivery: Delivery, answer: Answer, *, seconds: float) -> None:
        sink = post.sink.name
        match answer:
            case Sent():
                await self._delivered(sink, delivery, answer.answer, seconds=seconds)
            case Failed(gone=True):
                await self._closed(post, delivery, answer.reason)
            case Failed(permanent=True) if not delivery.bare:
                await self._bared(sink, delivery, answer.reason)
            # Who refuses also the least that can be said refuses whom it comes from: that may be mended.
            case Failed(permanent=True, rejected=False):
                await self._given_up(sink, delivery, answer.reason)
            case Failed(excused=False) if _spent(delivery) >= self.attempts:
                await self._given_up(sink, delivery, answer.reason)
            case Failed():
                await self._postponed(sink, delivery, answer)
            case _:
                assert_never(answer)

    async def _delivered(self, sink: str, delivery: Delivery, said: str, *, seconds: float) -> None:
        await self._write(partial(outbox.mark_delivered, self.database, delivery, self._shown(said)))
        self.telemetry.emit(
            OUTBOX_DELIVERED,
            sink=sink,
            alert_id=delivery.alert_id,
            kind=delivery.kind,
            attempt=delivery.attempt,
            seconds=round(seconds, 3),
        )

    async def _postponed(self, sink: str, delivery: Delivery, failed: Failed) -> None:
        reason = self._shown(failed.reason)
        seconds = seconds_to_next(delivery.attempt, asked=failed.retry_after, chance=random.random())
        if failed.retry_after is not None:
            await self._write(partial(alerts.pause_sink, self.database, sink, seconds))
        await self._write(
            partial(outbox.postpone, self.database, delivery, reason, seconds=seconds, excuse=failed.excused)
        )
        self.telemetry.emit(
            OUTBOX_FAILED,
            sink=sink,
            alert_id=delivery.alert_id,
            kind=delivery.kind,
            attempt=delivery.attempt,
            error=reason,
            next_try_in=round(seconds, 1),
        )

    async def _closed(self, post: Post, delivery: Delivery, reason: str) -> None:
        sink, shown = post.sink.name, self._shown(reason)
        close = partial(alerts.close_sink, self.database, sink, shown, address=post.address)
        if await self._write(close):
            self.telemetry.emit(SINK_CLOSED, sink=sink, error=shown)
        # It is nothing that this message did: however often it finds the sink gone, it keeps all its tries.
        await self._write(
            partial(outbox.postpone, self.database, delivery, shown, seconds=CLOSED_SECONDS, excuse=True)
        )

    async def _count_refusal(self, post: Post, reason: str) -> None:
        sink, shown = post.sink.name, self._shown(reason)
        count = partial(alerts.count_refusal, self.database, sink, shown, address=post.address)
        if await self._write(count):
            self.telemetry.emit(SINK_CLOSED, sink=sink, error=shown)

    async def _bared(self, sink: str, delivery: Delivery, reason: str) -> None:
        """Let the next try be a text without what may be what is refused."""
        shown, body = self._shown(reason), without_details(delivery, datetime.now(UTC))
        await self._write(partial(outbox.make_bare, self.database, delivery, shown, body=body, seconds=0.0))
        self.telemetry.emit(
            OUTBOX_BARED,
            sink=sink,
            alert_id=delivery.alert_id,
            kind=delivery.kind,
            attempt=delivery.attempt,
            error=shown,
        )

    async def _given_up(self, sink: str, delivery: Delivery, reason: str) -> None:
        shown = self._shown(reason)
        await self._write(partial(outbox.give_up, self.database, delivery, shown))
        self.telemetry.emit(
            OUTBOX_GAVE_UP,
            sink=sink,
            alert_id=delivery.alert_id,
            kind=delivery.kind,
            attempt=delivery.attempt,
            error=shown,
        )

    async def _write(self, write: Callable[[], Awaitable[T]]) -> T:
        """Write until it is written: only the end of the dispatcher cuts this short, and then it is sent once more."""
        never = anyio.Event()
        while True:
            try:
                return await write()
            except StoreUnavailable:
                await self.database.available(never)

    def _shown(self, text: str) -> str:
        return clean(self.telemetry.redactor.text(text), ANSWER_LIMIT_BYTES)


def _spent(delivery: Delivery) -> int:
    """How many tries count so far, this one among them."""
    return delivery.attempt - delivery.excused


def seconds_to_next(attempt: int, *, asked: float | None, chance: float) -> float:
    """Give the wait after a failed try: what the receiver asked for and a little more, else the backoff of jobs."""
    if asked is not None:
        return backoff.on_top(asked, chance)
    return backoff.jittered(backoff.delay(attempt), chance)
