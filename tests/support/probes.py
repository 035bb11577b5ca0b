"""Handlers for tests of whole processes: they do as their payload says, and write what happened into a ledger.

The ledger (`support/ledger.py`) is a local file, outside of the database: one line for each START, STEP, END, FAILED
and CANCELLED, and DEAF for a cancellation that is swallowed, with the daemon's tag, pid, job id, run and attempt.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
import time
from pathlib import Path

import anyio

from support import ledger
from wakeful import Discard, Fail, JobContext, RateLimited, Registry, Retry, Snooze

registry = Registry()

# Read once: some handlers of tests take the environment away.
_PATH, _TAG = os.environ.get(ledger.PATH), os.environ.get(ledger.TAG, "")


def note(job: JobContext, what: str, **more: object) -> None:
    """Append one line to the ledger, in one write."""
    if not _PATH:
        return
    ledger.append(
        Path(_PATH),
        what,
        tag=_TAG,
        pid=os.getpid(),
        job_id=str(job.job_id),
        job_type=job.job_type,
        run_no=job.run_no,
        attempt=job.attempt,
        **more,
    )


@registry.job("probe.ok")
async def ok(job: JobContext) -> object:
    note(job, "START")
    note(job, "END")
    return {"ok": True}


@registry.job("probe.sleep")
async def sleep(job: JobContext) -> object:
    note(job, "START")
    await _rest(job)
    note(job, "END")
    return None


async def _rest(job: JobContext) -> None:
    """Sleep for the payload's seconds, and note where that was cut short."""
    try:
        await asyncio.sleep(float(str(job.payload["seconds"])))
    except asyncio.CancelledError:
        note(job, "CANCELLED")
        raise


@registry.job("probe.once_long")
async def once_long(job: JobContext) -> object:
    """Take long in the first run, and no time in the others."""
    note(job, "START")
    if job.run_no == 1:
        await _rest(job)
    note(job, "END")
    return None


@registry.job("probe.long_until")
async def long_until(job: JobContext) -> object:
    """Take long before the run that the payload names."""
    note(job, "START")
    if job.run_no < int(str(job.payload["run"])):
        await _rest(job)
    note(job, "END")
    return None


@registry.job("probe.until")
async def until(job: JobContext) -> object:
    """Take until the file that the payload names is there."""
    note(job, "START")
    file = Path(str(job.payload["file"]))
    while not file.exists():
        await asyncio.sleep(0.01)
    note(job, "END")
    return None


@registry.job("probe.deaf_once")
async def deaf_once(job: JobContext) -> object:
    """Swallow every cancellation in the first run, and take no time in the others."""
    return await deaf(job) if job.run_no == 1 else await ok(job)


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
            note(job, "DEAF")
    note(job, "END")
    return None


@registry.job("probe.raise")
async def fail(job: JobContext) -> object:
    note(job, "START")
    note(job, "FAILED")
    raise RuntimeError(str(job.payload.get("text", "probe")))


@registry.job("probe.say")
async def say(job: JobContext) -> object:
    note(job, "START")
    note(job, "FAILED")
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
    note(job, "FAILED")
    raise SystemExit(7)


@registry.job("probe.steps")
async def steps(job: JobContext) -> object:
    note(job, "START")
    for number in range(int(str(job.payload["steps"]))):
        async with job.step(f"step {number}"):
            note(job, "STEP", step=number)
    note(job, "END")
    return None


@registry.job("probe.reports_on")
async def reports_on(job: JobContext) -> object:
    """Report for a while; once that is refused, or cut short, try a hundred times more, all at once."""
    note(job, "START")
    until = time.monotonic() + float(str(job.payload["seconds"]))
    async with job.step("reporting") as step:
        try:
            while time.monotonic() < until:
                await step.progress(50, f"of run {job.run_no}")
                note(job, "STEP")
                await asyncio.sleep(0.05)
        except BaseException as refused:
            note(job, "REFUSED", error=type(refused).__name__)  # first: what follows may be cut short
            again = [step.progress(99, "of a former run") for _ in range(100)]
            await asyncio.gather(*again, return_exceptions=True)
            note(job, "CANCELLED")
            raise
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


@registry.job("probe.leaves_thread")
async def leaves_thread(job: JobContext) -> None:
    """Leave a thread behind that the interpreter waits for at its end."""
    threading.Thread(target=_sleep_long, daemon=False).start()


@registry.job("probe.leaves_executor")
async def leaves_executor(job: JobContext) -> None:
    """Leave a call in the event loop's executor, which the end of the loop waits for."""
    asyncio.get_running_loop().run_in_executor(None, _sleep_long)


@registry.job("probe.leaves_child")
async def leaves_child(job: JobContext) -> None:
    """Leave a process that the interpreter joins at its end."""
    multiprocessing.get_context("fork").Process(target=_sleep_while_the_parent_lives, daemon=False).start()


@registry.job("probe.forks")
async def forks(job: JobContext) -> int:
    return _fork(job)


@registry.job("probe.forks_in_thread")
def forks_in_thread(job: JobContext) -> int:
    return _fork(job)


def _fork(job: JobContext) -> int:
    """Fork without exec; the copy ends as it was told, as if it were the handler. Gives its exit code."""
    copy = os.fork()
    if copy:
        note(job, "END")
        return os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])
    note(job, "COPY")
    match job.payload["ending"]:
        case "exit":
            raise SystemExit(7)
        case "raise":
            raise RuntimeError("in the copy")
        case _:
            return 0


def _sleep_long() -> None:
    time.sleep(60)


def _sleep_while_the_parent_lives() -> None:
    parent, until = os.getppid(), time.monotonic() + 60
    while os.getppid() == parent and time.monotonic() < until:
        time.sleep(0.05)


@registry.job("probe.stops_loop")
async def stops_loop(job: JobContext) -> None:
    """Stop the event loop from a thread that knows nothing of the attempt, and wait for what that does."""
    note(job, "START")
    loop = asyncio.get_running_loop()
    threading.Thread(target=loop.call_soon_threadsafe, args=(loop.stop,), daemon=True).start()
    await asyncio.sleep(0.1)
    note(job, "END")
