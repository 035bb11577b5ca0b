"""Waits for what no signal tells of, such as the state of another session: looks again and again until it holds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from support.databases import Connection

_LOOK_SECONDS = 0.01
T = TypeVar("T")


async def eventually(
    look: Callable[[], Awaitable[T]], *, until: Callable[[T], object] = bool, timeout: float = 30.0
) -> T:
    """Look until what is seen satisfies `until`, and give it. Raises AssertionError after `timeout` seconds."""
    with anyio.move_on_after(timeout):
        while not until(seen := await look()):
            await anyio.sleep(_LOOK_SECONDS)
        return seen
    last = await look()
    raise AssertionError(f"did not come true within {timeout} s; last seen: {last!r}")


def looked(look: Callable[[], T]) -> Callable[[], Awaitable[T]]:
    """Give a look at something in this process in the form that `eventually` takes."""

    async def look_now() -> T:
        return look()

    return look_now


async def blocked(
    observer: Connection, session: Connection, *, by: Connection | None = None
) -> tuple[int, ...]:
    """Wait until the session waits for a lock of another (of `by`), and give the pids of those that it waits for."""
    pid = session.get_server_pid()

    async def blockers() -> tuple[int, ...]:
        found = await observer.fetchval("select pg_blocking_pids($1)", pid)
        return tuple(found)

    return await eventually(blockers, until=lambda found: by.get_server_pid() in found if by else found)
