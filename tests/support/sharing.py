"""Handlers of a registry with a lifespan and a hook, for tests of whole processes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

from wakeful import JobContext, Registry

registry = Registry()


@registry.lifespan
async def shared() -> AsyncIterator[dict[str, int]]:
    """What handlers share: here, a count of the attempts that the hook saw."""
    yield {"attempts": 0}


@registry.around
async def counted(job: JobContext, call: Callable[[], Awaitable[object]]) -> object:
    job.resources["attempts"] += 1
    return await call()


@registry.job("shared.count", queue="declared", priority="interactive", max_attempts=7, subject="place.id")
async def count(job: JobContext) -> object:
    return {"attempts": job.resources["attempts"]}
