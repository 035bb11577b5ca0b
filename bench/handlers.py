"""The handlers that are measured: they do nothing, or tell the measuring process that they have started."""

from __future__ import annotations

import os
import socket
import time

import anyio

from wakeful import JobContext, Registry, Retry

SLEEP_SECONDS = 0.5
RETRY_SECONDS = 1.0

registry = Registry()
_told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)


@registry.job("bench.noop")
async def noop(job: JobContext) -> None:
    return None


@registry.job("bench.forgotten", history=False)
async def forgotten(job: JobContext) -> None:
    return None


@registry.job("bench.thread")
def thread(job: JobContext) -> None:
    return None


@registry.job("bench.tell")
async def tell(job: JobContext) -> None:
    _told.sendto(str(job.job_id).encode(), os.environ["BENCH_SOCKET"])


@registry.job("bench.clock")
async def clock(job: JobContext) -> dict[str, float]:
    """When the handler started, by the clock of the machine, which is the server's, too."""
    return {"at": time.time()}


@registry.job("bench.retry")
async def retry(job: JobContext) -> dict[str, float]:
    if job.attempt == 1:
        raise Retry(RETRY_SECONDS)
    return {"at": time.time()}


@registry.job("bench.sleep")
async def sleep(job: JobContext) -> None:
    await anyio.sleep(SLEEP_SECONDS)
