"""Handlers of long jobs: their type declares a deadline of an hour, so its lease is the long one."""

from __future__ import annotations

import asyncio

from support.probes import note
from wakeful import JobContext, Registry

registry = Registry()


@registry.job("probe.hour", deadline=3600.0)
async def hour(job: JobContext) -> None:
    note(job, "START")
    try:
        await asyncio.sleep(float(str(job.payload["seconds"])))
    except asyncio.CancelledError:
        note(job, "CANCELLED")
        raise
    note(job, "END")
