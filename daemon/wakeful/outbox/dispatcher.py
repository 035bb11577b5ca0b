"""The loop that lets people hear of what happened: look, fold, make messages, send what is due; at the end, flush.

Invariant: the loop itself waits for no sink. Each message is sent by a call of its own, at most `SENDS_AT_ONCE` a sink
at a time, so that a dead or slow sink holds up nobody but itself. Any number of dispatchers may run: each event is
counted once and, while all goes well, each message sent once. A process that dies between a send and its mark costs
one repeat with the same id. Messages are made for the sinks of whoever makes them; all instances should have the same.
Nothing but its stop ends it: what goes wrong in a step is told, and the other steps go on (`guarding`).
"""

from __future__ import annotations

import math
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import anyio
from anyio.abc import TaskGroup

from wakeful.aio.periodic import every, rest
from wakeful.aio.wakeup import Wakeup
from wakeful.core.settings import OutboxSettings
from wakeful.errors import StoreUnavailable
from wakeful.outbox.composing import Composing
from wakeful.outbox.folding import Folding
from wakeful.outbox.guarding import attempted
from wakeful.outbox.opening import open_closed_sinks
from wakeful.outbox.policy import Policy
from wakeful.outbox.sending import Post, Sender
from wakeful.outbox.sinks.protocol import Sink
from wakeful.store import outbox
from wakeful.store.database import Database
from wakeful.store.outbox import NOTHING_SEEN, Resolved, Sight
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import ALERT_RESOLVED

FLUSH_SECONDS: Final = 5.0
_LOOK_FOR_QUIET_SECONDS: Final = 30.0
_LOOK_FOR_STALE_SECONDS: Final = 60.0
_FLUSH_LOOK_SECONDS: Final = 0.2
_SHORTEST_REST: Final = 0.01
_JITTER: Final = 0.2


async def run_dispatcher(
    database: Database,
    sinks: Sequence[Sink],
    stop: anyio.Event,
    *,
    telemetry: Telemetry,
    settings: OutboxSettings,
    policy: Policy,
    wakeup: Wakeup,
    instance_id: Callable[[], int],
    flush_seconds: float = FLUSH_SECONDS,
    turned: Callable[[], None] = lambda: None,
) -> None:
    """Dispatch until `stop` is set, which should be after the last job has ended; then flush for `flush_seconds`.

    `wakeup` is rung by who knows of a new event (a death here); without it, events are found within
    `settings.interval`. The next try of a message is made when it is due. `instance_id` gives the number of this
    instance, which leases are shown with.
    """
    sender = Sender(database=database, telemetry=telemetry, attempts=settings.attempts, done=wakeup)
    posts = tuple(Post(sink) for sink in sinks)
    async with anyio.create_task_group() as sends:
        sends.start_soon(_resolve_quiet_alerts, database, stop, telemetry, settings.quiet)
        composing = _composing(database, telemetry, policy, posts)
        sends.start_soon(_merge_stale, composing, stop)
        sends.start_soon(open_closed_sinks, composing, posts, stop, settings.interval)
        turns = _turns(sender, posts, sends, composing, instance_id)
        while not stop.is_set():
            turned()
            try:
                await turns.take()
            except StoreUnavailable:
                await database.available(stop)
            await rest(stop, wakeup, _seconds_to_rest(settings.interval, turns.next_in))
        await _flush(turns, wakeup, flush_seconds)


async def flush_outbox(
    database: Database,
    sinks: Sequence[Sink],
    seconds: float,
    *,
    telemetry: Telemetry,
    settings: OutboxSettings,
    policy: Policy,
    instance_id: int = 0,
) -> None:
    """Fold what happened and send what is due, once, within `seconds`; what is not sent by then stays due."""
    done = Wakeup()
    sender = Sender(database=database, telemetry=telemetry, attempts=settings.attempts, done=done)
    posts = tuple(Post(sink) for sink in sinks)
    async with anyio.create_task_group() as sends:
        composing = _composing(database, telemetry, policy, posts)
        turns = _turns(sender, posts, sends, composing, lambda: instance_id)
        await _flush(turns, done, seconds)


def _composing(database: Database, telemetry: Telemetry, policy: Policy, posts: Sequence[Post]) -> Composing:
    names = tuple(post.sink.name for post in posts)
    return Composing(database=database, telemetry=telemetry, policy=policy, sinks=names)


def _turns(
    sender: Sender,
    posts: tuple[Post, ...],
    sends: TaskGroup,
    composing: Composing,
    instance_id: Callable[[], int],
) -> _Turns:
    first_wait = composing.policy.alerts.first_wait
    return _Turns(
        sender=sender,
        posts=posts,
        sends=sends,
        folding=Folding(database=sender.database, telemetry=sender.telemetry, first_wait=first_wait),
        composing=composing,
        instance_id=instance_id,
    )


def _seconds_to_rest(interval: float, next_in: float) -> float:
    return max(_SHORTEST_REST, min(interval * (1 - _JITTER * random.random()), next_in))


@dataclass(slots=True, kw_only=True)
class _Turns:
    """`next_in`: seconds from the last turn until the next message is due."""

    sender: Sender
    posts: tuple[Post, ...]
    sends: TaskGroup
    folding: Folding
    composing: Composing
    instance_id: Callable[[], int]
    next_in: float = math.inf

    async def take(self) -> bool:
        """Do what there is to do now; False where there was nothing."""
        sight = await self._look()
        folded = sight.unfolded and await self._attempted("fold", self.folding.fold) > 0
        made = (folded or sight.looking) and await self._attempted("compose", self.composing.compose) > 0
        if folded or made:
            sight = await self._look()
        self.next_in = math.inf if sight.next_in is None else sight.next_in
        if folded and sight.unfolded:
            self.next_in = 0.0  # a backlog, of which a turn's worth is done
        leased = 0
        for post in self.posts:
            if post.room and post.sink.name in sight.due:
                leased += await self._attempted("lease", partial(self._start_sending, post))
        return folded or made or leased > 0

    async def _look(self) -> Sight:
        look = partial(outbox.look, self.sender.database, self.composing.sinks)
        return await attempted("look", look, NOTHING_SEEN, self.sender.telemetry)

    async def _attempted(self, step: str, call: Callable[[], Awaitable[int]]) -> int:
        return await attempted(step, call, 0, self.sender.telemetry)

    async def _start_sending(self, post: Post) -> int:
        deliveries = await outbox.lease(
            self.sender.database,
            post.sink.name,
            post.room,
            instance_id=self.instance_id(),
            seconds=post.lease_seconds,
            pace=post.pace,
        )
        for delivery in deliveries:
            post.room -= 1
            self.sends.start_soon(self.sender.send, post, delivery)
        return len(deliveries)

    def idle(self) -> bool:
        """Whether nothing is being sent."""
        return all(post.room == post.most for post in self.posts)


async def _flush(turns: _Turns, done: Wakeup, seconds: float) -> None:
    """Send what is due; what is still under way after `seconds` is cut off, and sent once more by somebody later."""
    with anyio.move_on_after(seconds):
        while await _is_anything_left(turns):
            await done.wait(_FLUSH_LOOK_SECONDS)
    turns.sends.cancel_scope.cancel()


async def _is_anything_left(turns: _Turns) -> bool:
    try:
        return await turns.take() or not turns.idle()
    except StoreUnavailable:
        await turns.sender.database.available(anyio.Event())
        return True


async def _resolve_quiet_alerts(
    database: Database, stop: anyio.Event, telemetry: Telemetry, quiet: float
) -> None:
    """End what is over: what has been quiet for long, and deaths of which no job is dead any more."""
    async for _ in every(min(_LOOK_FOR_QUIET_SECONDS, max(quiet / 10, 0.1)), stop):
        try:
            await _resolve(partial(outbox.resolve_quiet, database, quiet), telemetry)
            await _resolve(partial(outbox.resolve_gone, database), telemetry)
        except StoreUnavailable:
            await database.available(stop)


async def _resolve(call: Callable[[], Awaitable[Sequence[Resolved]]], telemetry: Telemetry) -> None:
    resolved: Sequence[Resolved] = await attempted("resolve", call, (), telemetry)
    for alert in resolved:
        telemetry.emit(
            ALERT_RESOLVED, alert_id=alert.alert_id, kind=alert.kind, occurrences=alert.occurrences
        )


async def _merge_stale(composing: Composing, stop: anyio.Event) -> None:
    """Merge what has waited too long, now and then."""
    interval = min(_LOOK_FOR_STALE_SECONDS, max(composing.policy.alerts.stale / 4, 0.1))
    async for _ in every(interval, stop):
        try:
            await attempted("merge", composing.merge_stale, 0, composing.telemetry)
        except StoreUnavailable:
            await composing.database.available(stop)
