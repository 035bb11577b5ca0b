"""The daemon under measurement: a process of its own, `python -m wakeful run`, as users run it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from bench.stage import Connection, Stage

ROOT = Path(__file__).resolve().parents[1]
# The probes' port would be taken twice, and nobody reads the lines of a million jobs.
ALWAYS = {"handlers": "bench.handlers", "http__enabled": "false", "log__level": "warning"}
NO_SETTINGS: Mapping[str, object] = {}
LOOK_SECONDS = 0.02
WATCH_SECONDS = 1.0
PATIENCE_SECONDS = 900.0

LAST_LINES = 10

Process = subprocess.Popen[bytes]


class DaemonEnded(Exception):
    """A daemon that was to be measured has ended by itself; the message has its last lines."""


def start_daemon(here: Stage, settings: Mapping[str, object] = NO_SETTINGS) -> Process:
    """Start one daemon with its defaults, but for `settings` ({"worker__concurrency": 100})."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("WAKEFUL", "PG"))}
    environment |= {f"WAKEFUL__{key.upper()}": str(value) for key, value in {**ALWAYS, **settings}.items()}
    environment |= {
        "DATABASE_URL": here.dsn,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'daemon'}",  # the checkout that this file lies in
        "BENCH_SOCKET": str(here.folder / "told"),
        "WAKEFUL_CONFIG": "",
    }
    with _log(here).open("ab") as log:
        command = [sys.executable, "-m", "wakeful", "run"]
        return subprocess.Popen(command, env=environment, cwd=here.folder, stdout=log, stderr=log)


@asynccontextmanager
async def daemons(
    here: Stage, connection: Connection, *, number: int = 1, settings: Mapping[str, object] = NO_SETTINGS
) -> AsyncIterator[Sequence[Process]]:
    """Run so many daemons; the block begins when all of them are registered, and ends with SIGTERM.

    Raises DaemonEnded, and cancels what the block waits for, when one of them ends before that.
    """
    before = await connection.fetchval("select count(*) from wakeful.instance")
    processes = [start_daemon(here, settings) for _ in range(number)]
    try:
        with anyio.CancelScope() as block:
            watching = asyncio.create_task(_watch(processes, block))
            try:
                await until(
                    connection,
                    f"select count(*) >= {before + number} from wakeful.instance where state = 'live'",
                )
                yield processes
            finally:
                watching.cancel()
        if block.cancelled_caught:
            raise DaemonEnded(f"a daemon has ended, and said last:\n{_last_lines(here)}")
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            process.wait(60)


async def _watch(processes: Sequence[Process], block: anyio.CancelScope) -> None:
    """Cancel the block when one of them has ended."""
    while all(process.poll() is None for process in processes):  # noqa: ASYNC110 - no event tells of it
        await anyio.sleep(WATCH_SECONDS)
    block.cancel()


def _log(here: Stage) -> Path:
    return here.folder / "daemon.log"


def _last_lines(here: Stage) -> str:
    lines = _log(here).read_text(errors="replace").splitlines()
    return "\n".join(f"  {line}" for line in lines[-LAST_LINES:])


async def until(connection: Connection, condition: str, *arguments: object) -> None:
    """Ask until the answer is true. Raises TimeoutError after a quarter of an hour."""
    with anyio.fail_after(PATIENCE_SECONDS):
        while not await connection.fetchval(condition, *arguments):  # noqa: ASYNC110 - the database tells nobody
            await anyio.sleep(LOOK_SECONDS)
