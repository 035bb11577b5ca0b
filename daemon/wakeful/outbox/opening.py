"""Sinks that are closed are tried again: all of them when a daemon starts, then those whose address is another one now.

Invariant: what is compared is a hash, so that no address is stored. Two instances with two addresses open and close in
turn, at this loop's pace, until their configurations are the same; no message loses a try by it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import anyio

from wakeful.aio.periodic import every
from wakeful.errors import StoreUnavailable
from wakeful.outbox.composing import Composing
from wakeful.outbox.guarding import attempted
from wakeful.outbox.sending import Post
from wakeful.store import alerts
from wakeful.store.database import Database
from wakeful.telemetry.events import SINK_OPENED

_INTERVALS: Final = 6  # of looking for events, for one look at closed sinks


async def open_closed_sinks(
    composing: Composing, posts: Sequence[Post], stop: anyio.Event, interval: float
) -> None:
    """Open sinks until `stop` is set; `interval` is that of looking for events."""
    database = composing.database
    opening: Callable[[], Awaitable[Sequence[str]]] = partial(alerts.open_sinks, database, composing.sinks)
    async for _ in every(_INTERVALS * interval, stop):
        try:
            opened: Sequence[str] = await attempted("open", opening, (), composing.telemetry)
        except StoreUnavailable:
            await database.available(stop)
            continue
        for sink in opened:
            composing.telemetry.emit(SINK_OPENED, sink=sink)
        opening = partial(open_readdressed, database, posts)


async def open_readdressed(database: Database, posts: Sequence[Post]) -> Sequence[str]:
    """Open those that are closed and have another address now; gives them."""
    closed = await alerts.closed_sinks(database, [post.sink.name for post in posts])
    moved = [
        post.sink.name
        for post in posts
        if post.sink.name in closed and post.address not in (None, closed[post.sink.name])
    ]
    return await alerts.open_sinks(database, moved) if moved else []
