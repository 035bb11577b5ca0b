"""A handler in a process of its own, apart from the others, since each daemon that serves it starts a process."""

from __future__ import annotations

import asyncio

from soak.handlers import call, seconds_of, soon
from wakeful import JobContext, Registry

registry = Registry()


@registry.job("soak.isolated", backoff=soon, isolation="process", deadline="1m")
async def isolated(job: JobContext) -> object:
    with call(job) as result:
        await asyncio.sleep(seconds_of(job))
        return result
