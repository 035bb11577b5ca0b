"""The handlers of the soak: of every temper, each of which writes into the ledger when it starts and how it ends.

What a job gives back names the run and the very call that made it, so that the judge knows who wrote a result.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from support.probes import note
from wakeful import JobContext, Registry, Retry, Snooze

registry = Registry()


class Stopped(Exception):
    """A plain handler was asked to end, and does."""


def soon(attempt: int) -> float:
    """A backoff for tests."""
    return 0.1 * attempt


@contextmanager
def call(job: JobContext) -> Iterator[dict[str, object]]:
    """Write START, and how it ended; gives the result."""
    nonce = secrets.token_hex(6)
    note(job, "START", nonce=nonce, early=is_early(job))
    try:
        yield {"run_no": job.run_no, "nonce": nonce}
    except BaseException as error:
        what = "CANCELLED" if isinstance(error, asyncio.CancelledError | Stopped) else "FAILED"
        note(job, what, nonce=nonce, error=type(error).__name__)
        raise
    note(job, "END", nonce=nonce)


def is_early(job: JobContext) -> bool:
    """Whether it is not due yet."""
    due = job.payload.get("due")
    return due is not None and datetime.now(UTC) < datetime.fromisoformat(str(due))


def seconds_of(job: JobContext) -> float:
    """How long it is to take."""
    return float(str(job.payload.get("seconds", 0)))


@registry.job("soak.quick", backoff=soon)
async def quick(job: JobContext) -> object:
    with call(job) as result:
        return result


@registry.job("soak.sleep", backoff=soon)
async def sleep(job: JobContext) -> object:
    with call(job) as result:
        await asyncio.sleep(seconds_of(job))
        return result


@registry.job("soak.long", backoff=soon, deadline="5m")
async def long(job: JobContext) -> object:
    with call(job) as result:
        await asyncio.sleep(seconds_of(job))
        return result


@registry.job("soak.thread", backoff=soon)
def thread(job: JobContext) -> object:
    with call(job) as result:
        until = time.monotonic() + seconds_of(job)
        while time.monotonic() < until:
            if job.cancelled:
                raise Stopped
            time.sleep(0.01)
        return result


@registry.job("soak.steps", backoff=soon, steps=("one", "two"))
async def steps(job: JobContext) -> object:
    with call(job) as result:
        for name in ("one", "two", "three"):
            async with job.step(name) as step:
                await step.progress(50, "half of it")
        return result


@registry.job("soak.failing", backoff=soon, max_attempts=2)
async def failing(job: JobContext) -> object:
    with call(job):
        raise RuntimeError("never works")


@registry.job("soak.flaky", backoff=soon, max_attempts=3)
async def flaky(job: JobContext) -> object:
    with call(job) as result:
        if job.attempt < int(str(job.payload["works_at"])):
            raise RuntimeError("not yet")
        return result


@registry.job("soak.snooze", backoff=soon)
async def snooze(job: JobContext) -> object:
    with call(job) as result:
        if job.run_no == 1:
            raise Snooze(1)
        return result


@registry.job("soak.retry", backoff=soon, max_attempts=3)
async def retry(job: JobContext) -> object:
    with call(job) as result:
        if job.attempt == 1:
            raise Retry(0.3)
        return result


@registry.job("soak.deduped", backoff=soon)
async def deduped(job: JobContext) -> object:
    with call(job) as result:
        await asyncio.sleep(seconds_of(job))
        return result


@registry.job("soak.later", backoff=soon)
async def later(job: JobContext) -> object:
    with call(job) as result:
        return result


@registry.job("soak.parent", backoff=soon)
async def parent(job: JobContext) -> object:
    with call(job) as result:
        job.enqueue("soak.child", {"parent": str(job.job_id)})
        return result


@registry.job("soak.child", backoff=soon)
async def child(job: JobContext) -> object:
    with call(job) as result:
        return {**result, "parent": job.payload["parent"]}


@registry.job("soak.deaf", backoff=soon, deadline="500ms", max_attempts=2)
async def deaf(job: JobContext) -> object:
    """Swallow every cancellation."""
    with call(job) as result:
        until, nonce = time.monotonic() + seconds_of(job), result["nonce"]
        while time.monotonic() < until:
            try:
                await asyncio.sleep(until - time.monotonic())
            except asyncio.CancelledError:
                note(job, "DEAF", nonce=nonce)
        return result
