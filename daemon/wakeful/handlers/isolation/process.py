"""One process of handlers as the daemon sees it: what it says and is told, how much memory it has, how it ended.

Invariant: it is spawned, not forked, so it has nothing of the daemon's, and nothing secret is on its command line. It
ends with the daemon, however that ends (`bootstrap`), and what it has started ends with it (`spawning`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio

from wakeful.core.text import clean
from wakeful.errors import ConfigError, ProcessDied
from wakeful.handlers.isolation.frames import Frame, FrameReader, GarbageFrame, encode
from wakeful.handlers.isolation.lines import log_line
from wakeful.handlers.isolation.output import Output
from wakeful.handlers.isolation.spawning import Spawned, spawn
from wakeful.telemetry.tracing.joining import is_instrumented

START_SECONDS: Final = 60.0
LEAVE_SECONDS: Final = 3.0
LAST_WORDS_SECONDS: Final = 0.2
BUFFER_BYTES: Final = 256 * 1024
MESSAGE_LIMIT_BYTES: Final = 4096
MIB: Final = 1024 * 1024

_BOOTSTRAP: Final = str(Path(__file__).with_name("bootstrap.py"))
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What every process of handlers is told; `memory` is its limit in bytes, 0 for none.

    `secret_types`: those of its job types whose payloads hold secrets.
    """

    modules: tuple[str, ...]
    job_types: tuple[str, ...]
    memory: int
    secret_types: frozenset[str] = frozenset()


class Process:
    """One process that is ready. Made by `start_process`, used on that loop only; `attempts` counts those it ran."""

    __slots__ = ("_frames", "_lifeline", "_spawned", "_writer", "attempts", "launch", "output")

    def __init__(
        self,
        launch: Launch,
        spawned: Spawned,
        *,
        lifeline: int,
        output: Output,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.launch = launch
        self.output = output
        self.attempts = 0
        self._spawned = spawned
        self._lifeline = lifeline
        self._frames = FrameReader(reader)
        self._writer = writer

    @property
    def pid(self) -> int:
        """Its number."""
        return self._spawned.pid

    @property
    def code(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        return self._spawned.code

    @property
    def memory_used(self) -> int:
        """The bytes that it has in memory; 0 where that can't be known."""
        try:
            return int(Path(f"/proc/{self.pid}/statm").read_bytes().split()[1]) * _PAGE_BYTES
        except (OSError, IndexError, ValueError):
            return 0

    @property
    def read_bytes(self) -> int:
        """How much it has sent so far."""
        return self._frames.read_bytes

    def send(self, frame: Frame) -> None:
        """Send a frame; what nobody reads any more is dropped."""
        if not self._writer.is_closing():
            self._writer.write(encode(frame))

    async def sent(self) -> None:
        """Wait until what was sent is on its way."""
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()

    async def receive(self) -> Frame | None:
        """Give the next frame, None when no more will come. Raises GarbageFrame."""
        return await self._frames.read()

    def kill(self) -> None:
        """Kill it and all that it has started."""
        self._spawned.kill()

    async def ended(self) -> None:
        """Wait until it has ended."""
        await self._spawned.ended.wait()

    async def leave(self) -> None:
        """Let it leave its lifespans and end; one that takes long is killed."""
        self.send({"do": "leave"})
        with anyio.move_on_after(LEAVE_SECONDS):
            await self.ended()
        self.kill()

    async def watch(self, on_end: Callable[[], None]) -> None:
        """See it to its end, tell of it, and close what was open between us."""
        try:
            await self.ended()
            on_end()
            self.output.close()
            await anyio.sleep(LAST_WORDS_SECONDS)  # what it said last is still read
        finally:
            self.kill()
            self.output.close()
            os.close(self._lifeline)
            self._writer.transport.abort()

    @property
    def how_it_ended(self) -> str:
        """In words, for an error."""
        code = self.code
        if code is None:
            return "it closed its connection"
        if code >= 0:
            return f"exit code {code}"
        name = signal.Signals(-code).name if -code in signal.valid_signals() else f"signal {-code}"
        hint = " (by hand, or by the kernel when memory ran out)" if -code == signal.SIGKILL else ""
        return f"{name}{hint}"


async def start_process(launch: Launch) -> Process:
    """Start a process; it is not ready before it has been greeted. Raises ProcessDied."""
    ours, theirs = socket.socketpair()
    lifeline, our_lifeline = os.pipe()
    output, their_output = os.pipe()
    command = (sys.executable, "-P", _BOOTSTRAP, str(theirs.fileno()), str(lifeline))
    try:
        spawned = await spawn(command, keep=(theirs.fileno(), lifeline), output=their_output)
    except BaseException as error:
        ours.close()
        os.close(our_lifeline)
        os.close(output)
        if isinstance(error, OSError):
            raise ProcessDied(f"the process of a handler can't be started: {error}") from error
        raise
    finally:
        theirs.close()
        os.close(lifeline)
        os.close(their_output)
    reader, writer = await asyncio.open_unix_connection(sock=ours, limit=BUFFER_BYTES)
    # In a context of its own: what is printed between two attempts belongs to neither.
    lines = Context().run(Output, output)
    return Process(launch, spawned, lifeline=our_lifeline, output=lines, reader=reader, writer=writer)


async def greet(process: Process) -> None:
    """Tell a process what it is for, and wait until it is ready. Raises ConfigError where it can't be, ProcessDied."""
    launch, level = process.launch, logging.getLogger().getEffectiveLevel()
    told = {"modules": launch.modules, "job_types": launch.job_types, "memory": launch.memory}
    instrument = {"instrument": True} if is_instrumented() else {}
    process.send({"do": "hello", "path": sys.path, "level": level, **told, **instrument})
    frame: Frame | None = None
    with anyio.move_on_after(START_SECONDS) as scope:
        frame = await _first_answer(process)
    match frame:
        case {"do": "ready"}:
            return
        case {"do": "refused", "problems": list(problems)}:
            raise ConfigError(tuple(clean(one, MESSAGE_LIMIT_BYTES) for one in problems))
        case {"do": "failed", "message": str(text)}:
            message = clean(text, MESSAGE_LIMIT_BYTES)
            raise ProcessDied(f"the process of a handler could not get ready: {message}")
    late = f"not within {START_SECONDS:g} s" if scope.cancelled_caught else process.how_it_ended
    raise ProcessDied(f"the process of a handler did not get ready: {late}")


async def _first_answer(process: Process) -> Frame | None:
    while True:
        try:
            frame = await process.receive()
        except GarbageFrame:
            return None
        if frame is None:
            await process.ended()
        if frame is None or frame["do"] != "log":
            return frame
        log_line(frame)
