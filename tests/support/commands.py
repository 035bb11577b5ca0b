"""The command `wakeful` as a process of its own; one that runs beside the test is started as a shell does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process
from anyio.streams.text import TextReceiveStream

from support.databases import ClonedDatabase
from support.warm import forking

PROGRAM = (sys.executable, "-W", "error", "-m", "wakeful")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str

    def document(self) -> Any:
        """Standard output as one JSON document."""
        return json.loads(self.out)

    def documents(self) -> list[Any]:
        """Standard output as a JSON document a line."""
        return [json.loads(line) for line in self.out.splitlines()]


async def wakeful(
    *arguments: object,
    db: ClonedDatabase | None = None,
    role: str = "postgres",
    stdin: str = "",
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Ended:
    """Run a command to its end, on this database, in a folder without a configuration."""
    code, out, err = await anyio.to_thread.run_sync(
        partial(
            forking().run,
            [*map(str, arguments)],
            stdin=stdin.encode(),
            folder=str(folder or "/"),
            environ=environment(db, role=role, more=environ),
        )
    )
    return Ended(code=code, out=out.decode(), err=err.decode())


@asynccontextmanager
async def running_command(*arguments: object, db: ClonedDatabase) -> AsyncIterator[Process]:
    """Run a command beside the test; it is killed at the end if it still runs."""
    async with await anyio.open_process(
        [*PROGRAM, *map(str, arguments)], cwd="/", env=environment(db), stdin=subprocess.DEVNULL
    ) as process:
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()


@dataclass(slots=True)
class Lines:
    """Reads what a running command writes to standard output, line by line."""

    stream: TextReceiveStream
    kept: str = ""

    async def next(self, *, within: float = 40.0) -> str:
        """Wait for a line and give it. Raises TimeoutError, or EndOfStream."""
        with anyio.fail_after(within):
            while "\n" not in self.kept:
                self.kept += await self.stream.receive()
        line, _, self.kept = self.kept.partition("\n")
        return line


def lines_of(process: Process) -> Lines:
    """What a running command writes to standard output."""
    assert process.stdout is not None
    return Lines(TextReceiveStream(process.stdout))


def environment(
    db: ClonedDatabase | None, *, role: str = "postgres", more: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment of a command: this one's path, the database, and nothing of the caller's."""
    given = {} if db is None else {"DATABASE_URL": db.dsn_as(role)}
    return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", **given, **(more or {})}
