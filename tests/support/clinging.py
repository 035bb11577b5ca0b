"""A registry whose lifespan never closes, for tests of whole processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from wakeful import Registry

registry = Registry()


@registry.lifespan
async def clinging() -> AsyncIterator[None]:
    yield
    await asyncio.Event().wait()
