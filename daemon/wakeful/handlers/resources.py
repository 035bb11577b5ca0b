"""What handlers share (HTTP clients, pools, models): opened before the first claim, closed after the last handler.

Invariant: the lifespans are entered and left in one coroutine, so in one asyncio task, in the reverse order; one that
fails to close does not keep the others open. When that happens is for the supervisor.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

from wakeful.handlers.handler import Handler, Home
from wakeful.handlers.signature import name_of


class Resources:
    """What the lifespans have yielded, by the registry that a handler belongs to."""

    __slots__ = ("_by_home",)

    def __init__(self, by_home: Mapping[int, object]) -> None:
        self._by_home = by_home

    def of(self, handler: Handler) -> object:
        """Give the value of the lifespan of a handler's registry, None where there is none."""
        return self._by_home.get(id(handler.home))


@asynccontextmanager
async def open_homes(homes: Iterable[Home]) -> AsyncIterator[Resources]:
    """Enter the lifespan of each registry, in order; what it raises passes through, with a note that names it."""
    async with AsyncExitStack() as stack:
        by_home: dict[int, object] = {}
        for home in homes:
            if home.lifespan is not None:
                by_home[id(home)] = await stack.enter_async_context(_named(home.lifespan))
        yield Resources(by_home)


@asynccontextmanager
async def _named(lifespan: Callable[[], Any]) -> AsyncIterator[object]:
    opened = False
    try:
        async with _context_of(lifespan) as value:
            opened = True
            yield value
    except Exception as error:
        error.add_note(f"while the lifespan {name_of(lifespan)} was {'left' if opened else 'entered'}")
        raise


def _context_of(lifespan: Callable[[], Any]) -> AbstractAsyncContextManager[object]:
    made = lifespan()
    if inspect.isasyncgen(made):
        return asynccontextmanager(lambda: made)()
    if isinstance(made, AbstractAsyncContextManager):
        return made
    raise TypeError(f"the lifespan {name_of(lifespan)} gives a {type(made).__name__}, not an async generator")
