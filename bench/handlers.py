"""The handlers that are measured: they do nothing, or tell the measuring process that they have started."""

from __future__ import annotations

import os
import socket

from wakeful import JobContext, Registry

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
