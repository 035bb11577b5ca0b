"""Handlers for tests of whole processes: they do as their payload says, and write what happened into a ledger.

The ledger is a local file, outside of the database, that judges who ran what when: one JSON line for each START, STEP,
END and CANCELLED, with a monotonic time, the daemon's tag, pid, job id, run and attempt.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path

import anyio

from wakeful import Discard, Fail, JobContext, RateLimited, Registry, Retry, Snooze

registry = Registry()


def note(job: JobContext, what: str, **more: object) -> None:
    """Append one line to the ledger, in one write."""
    path = os.environ.get("LEDGER")
    if not path:
        return
    line = {
        "what": what,
        "at": time.monotonic(),
        "tag": os.environ.get("LEDGER_TAG", ""),
        "pid": os.getpid(),
        "job_id": str(job.job_id),
        "job_type": job.job_type,
        "run_no": job.run_no,
        "attempt": job.attempt,
        **more,
    }
    with Path(path).open("a", encoding="utf-8") as ledger:
        ledger.write(json.dumps(line) + "\n")


@registry.job("probe.ok")
async def ok(job: JobContext) -> object:
    note(job, "START")
    note(job, "END")
    return {"ok": True}


@registry.job("probe.sleep")
async def sleep(job: JobContext) -> object:
    note(job, "START")
    try:
        await asyncio.sleep(float(str(job.payload["seconds"])))
    except asyncio.CancelledError:
        note(job, "CANCELLED")
        raise
    note(job, "END")
    return None


@registry.job("probe.block")
async def block(job: JobContext) -> object:
    note(job, "START")
    time.sleep(float(str(job.payload["seconds"])))  # noqa: ASYNC251 - what this probe is for
    note(job, "END")
    return None


@registry.job("probe.thread")
def thread(job: JobContext) -> object:
    note(job, "START")
    until = time.monotonic() + float(str(job.payload["seconds"]))
    while time.monotonic() < until:
        if job.payload.get("listens") and job.cancelled:
            note(job, "CANCELLED")
            return None
        time.sleep(0.01)
    note(job, "END")
    return None


@registry.job("probe.deaf")
async def deaf(job: JobContext) -> object:
    note(job, "START")
    until = time.monotonic() + float(str(job.payload["seconds"]))
    while time.monotonic() < until:
        try:
            await asyncio.sleep(until - time.monotonic())
        except asyncio.CancelledError:
            note(job, "CANCELLED")
    note(job, "END")
    return None


@registry.job("probe.raise")
async def fail(job: JobContext) -> object:
    note(job, "START")
    raise RuntimeError(str(job.payload.get("text", "probe")))


@registry.job("probe.say")
async def say(job: JobContext) -> object:
    note(job, "START")
    seconds = float(str(job.payload.get("seconds", 0)))
    match job.payload["what"]:
        case "retry":
            raise Retry(seconds)
        case "snooze":
            raise Snooze(seconds)
        case "rate":
            raise RateLimited(seconds)
        case "fail":
            raise Fail("told to")
        case _:
            raise Discard("told to")


@registry.job("probe.exit")
async def leave(job: JobContext) -> object:
    note(job, "START")
    raise SystemExit(7)


@registry.job("probe.steps")
async def steps(job: JobContext) -> object:
    note(job, "START")
    for number in range(int(str(job.payload["steps"]))):
        async with job.step(f"step {number}"):
            note(job, "STEP", step=number)
    note(job, "END")
    return None


@registry.job("probe.exit_elsewhere")
async def leave_elsewhere(job: JobContext) -> object:
    """Exit in a task and in a callback of its own: neither is the attempt's."""
    note(job, "START")
    loop = asyncio.get_running_loop()

    async def exits() -> None:
        raise SystemExit(3)

    task = loop.create_task(exits())
    loop.call_soon(_exit)
    await asyncio.wait([task])
    note(job, "END")
    return None


def _exit() -> None:
    raise SystemExit(4)


@registry.job("probe.poison")
async def poison(job: JobContext) -> object:
    """Leave the worker's task in a state that nothing recovers: a scope entered, cancelled, and never left."""
    note(job, "START")
    scope = anyio.CancelScope()
    scope.__enter__()
    scope.cancel()
    asyncio.get_running_loop().stop()
    return None
