"""Handlers for processes of their own: each does to its process what its name says."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio

from wakeful import Discard, Fail, JobContext, LeaseLost, RateLimited, Registry, Retry, Snooze

registry = Registry()

LEDGER = "LEDGER"
LEAKED: list[bytes] = []
HOOKED_IN: ContextVar[int] = ContextVar("HOOKED_IN", default=0)


def note(text: object) -> None:
    """Write a line that outlives the process."""
    path = os.environ.get(LEDGER)
    if path:
        with Path(path).open("a", encoding="utf-8") as ledger:
            ledger.write(f"{text}\n")


def wait_for_word() -> None:
    """Wait until somebody has noted that it is over."""
    while "over" not in Path(os.environ[LEDGER]).read_text().split():
        time.sleep(0.001)


@registry.lifespan
async def resources() -> AsyncIterator[dict[str, object]]:
    note(f"entered {os.getpid()}")
    yield {"opened_in": os.getpid(), "runs": 0}
    note(f"left {os.getpid()}")


@registry.around
async def hook(job: JobContext, call: Callable[[], Awaitable[object]]) -> object:
    HOOKED_IN.set(os.getpid())
    return await call()


@registry.job("ECHO", isolation="process", deadline=60)
async def echo(job: JobContext, payload: dict[str, Any]) -> object:
    job.resources["runs"] += 1
    shown: dict[str, object] = {
        "attempt": job.attempt,
        "run_no": job.run_no,
        "subject": job.subject,
        "tags": list(job.tags),
    }
    shown |= {"left": job.time_left(), "hooked_in": HOOKED_IN.get()}
    return {"pid": os.getpid(), "payload": payload, "resources": job.resources, **shown}


@registry.job("PLAIN", isolation="process", deadline=60)
def plain(job: JobContext, payload: dict[str, Any]) -> object:
    with job.step("think") as step:
        step.progress(40, "half way")
        with job.step("deep"):
            pass
    return {"pid": os.getpid(), "exact": Decimal("0.10000000000000000001"), "left": job.time_left() > 0}


@registry.job("RAISE", isolation="process", deadline=60, backoff=lambda attempt: 600)
async def raise_it(job: JobContext, payload: dict[str, Any]) -> object:
    errors = {
        "ValueError": ValueError("no such colour"),
        "Retry": Retry(700, "later"),
        "Snooze": Snooze(60, "not yet"),
        "RateLimited": RateLimited(70, "429"),
        "Fail": Fail("never"),
        "Discard": Discard("not wanted"),
        "SystemExit": SystemExit(3),
    }
    raise errors[payload["what"]]


@registry.job("ODD", isolation="process", deadline=60)
async def odd(job: JobContext) -> object:
    return object()


@registry.job("ASK", isolation="process", deadline=60, steps=("first", "second"))
async def ask(job: JobContext) -> str:
    async with job.step("first") as step:
        await step.progress(150, "all of it")
    job.degrade("the moon is not out")
    job.alert("moon_missing", title="no moon", severity="error", body={"seen": 0})
    job.enqueue("FOLLOW", {"of": str(job.job_id)}, dedupe_key="after-ask", tags=("a",))
    job.log.warning("looked up", at="sky")
    logging.getLogger("foreign").info("from %s", "afar", extra={"stars": 7})
    try:
        raise KeyError("star")
    except KeyError:
        job.log.exception("one is missing")
    print("printed \x1b[31mred")
    sys.stderr.write("complained\n")
    async with job.step("second"):
        pass
    return "asked"


@registry.job("DIE", isolation="process", deadline=60, backoff=lambda attempt: 600)
def die(job: JobContext, payload: dict[str, Any]) -> None:
    job.alert("last_words", title="about to die")
    match payload["how"]:
        case "segfault":
            ctypes.string_at(1)
        case "exit":
            os._exit(7)
        case "closes":
            os.closerange(3, 100)
        case "garbage":
            write_everywhere(b"\x00\x00\x00\x05hello")
        case "endless":
            write_everywhere(b"\xff" * 100)
        case number:
            os.kill(os.getpid(), number)
    time.sleep(600)


def write_everywhere(content: bytes) -> None:
    """Write into whatever this process has open, as a wild library might."""
    for descriptor in range(3, 100):
        with contextlib.suppress(OSError):
            os.write(descriptor, content)


@registry.job("HOLD", isolation="process", deadline=60, backoff=lambda attempt: 600)
def hold(job: JobContext, payload: dict[str, Any]) -> None:
    """Hold the interpreter's lock, with a child of its own beside it."""
    sleeper = subprocess.Popen(["sleep", "600"])
    note(f"holding {os.getpid()} {sleeper.pid}")
    re.match(r"(a+)+$", "a" * 64 + "b")


@registry.job("WAIT", isolation="process", deadline=60)
async def wait(job: JobContext) -> None:
    note(f"waiting {os.getpid()}")
    try:
        await anyio.sleep(600)
    finally:
        note(f"stopped {job.cancelled}")


@registry.job("LOOK", isolation="process", deadline=60)
def look(job: JobContext) -> str:
    note(f"looking {os.getpid()}")
    while not job.cancelled:
        time.sleep(0.01)
    note("saw it")
    return "in time"


@registry.job("DEAF", isolation="process", deadline=60)
def deaf(job: JobContext) -> None:
    note(f"deaf {os.getpid()}")
    while True:
        time.sleep(1)


@registry.job("GROW", isolation="process", deadline=60, backoff=lambda attempt: 600)
def grow(job: JobContext, payload: dict[str, Any]) -> int:
    if payload.get("leap"):
        return len(bytearray(payload["leap"] * 1024 * 1024))
    for _ in range(payload.get("to", 10_000)):
        LEAKED.append(b"%d" % os.getpid() * 200_000)
        time.sleep(0.001)
    return os.getpid()


@registry.job("FLOOD", isolation="process", deadline=60)
def flood(job: JobContext, payload: dict[str, Any]) -> None:
    note(f"flooding {os.getpid()}")
    while payload["with"] == "lines":
        job.log.info("x" * 1000, number=1)
    while payload["with"] == "marks":
        job.progress(50, "x" * 500)
    while payload["with"] == "prints":
        print("x" * 100)
    job.degrade("nothing to flood with")


@registry.job("PRINT", isolation="process", deadline=60)
def print_much(job: JobContext, payload: dict[str, Any]) -> None:
    for number in range(payload.get("lines", 250)):
        print(f"line {number}")
    print("unended", end="")


@registry.job("TOKEN", isolation="process", deadline=60, secret=("token",))
def print_token(job: JobContext, payload: dict[str, Any]) -> None:
    """Print a secret: often enough that it is still said at the end, past the bound of a line, and when it is over."""
    for number in range(payload["lines"]):
        print(f"card {payload['token']} {number}")
    if "late" in payload:
        threading.Thread(target=print_late, args=(payload["token"],), daemon=True).start()
    if "died" in payload:
        os._exit(7)
    if "garbage" in payload:
        write_everywhere(b"\x00\x00\x00\x05hello")
        time.sleep(600)
    print("x" * 4090 + payload["token"])


def print_late(token: str) -> None:
    wait_for_word()
    print(f"late {token}")
    logging.getLogger("late").warning("late %s", token)
    note("late")


@registry.job("LEAK", isolation="process", deadline=60)
def leak(job: JobContext) -> None:
    """Leave a thread behind that speaks when the attempt is over."""
    threading.Thread(target=speak_late, args=(job,), daemon=True).start()


def speak_late(job: JobContext) -> None:
    with contextlib.suppress(LeaseLost):
        while True:
            job.degrade("not yet")
            time.sleep(0.001)
    wait_for_word()
    print("printed late")
    job.log.warning("too late")
    note("late")


@registry.job("FORK", isolation="process", deadline=60)
def fork(job: JobContext) -> str:
    if os.fork() == 0:
        logging.getLogger("copy").warning("from the copy")
        return "copy"
    return "original"


@registry.job("OUTLIVE", isolation="process", deadline=60, backoff=lambda attempt: 600)
def outlive(job: JobContext) -> None:
    """Leave children behind, and die."""
    for _ in range(3):
        note(f"child {subprocess.Popen(['sleep', '600']).pid}")
    os.kill(os.getpid(), signal.SIGKILL)
