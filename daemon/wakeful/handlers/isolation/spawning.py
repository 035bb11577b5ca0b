"""A program in a session of its own: spawned, killed as a group, and buried with all that it has started.

Invariant: when the program ends, its whole group is killed while its number still is its own, before it is waited for.
A thread waits for each, whatever becomes of the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence

import anyio


class Spawned:
    """A program that was started. `code` is None while it runs, its exit code after that, negative for a signal."""

    __slots__ = ("_lock", "_loop", "_popen", "code", "ended")

    def __init__(self, popen: subprocess.Popen[bytes], loop: asyncio.AbstractEventLoop) -> None:
        self.ended = anyio.Event()
        self.code: int | None = None
        self._popen = popen
        self._loop = loop
        self._lock = threading.Lock()

    @property
    def pid(self) -> int:
        """Its number, and that of its group."""
        return self._popen.pid

    def kill(self) -> None:
        """Kill its group; nothing happens where it has ended."""
        with self._lock:
            if self._popen.returncode is None:
                _kill_group(self.pid)

    def wait(self) -> None:
        """For its thread: wait until it ends, and bury it."""
        with contextlib.suppress(
            ChildProcessError
        ):  # a handler in the daemon waited for whatever child there was
            if hasattr(os, "waitid"):
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            else:
                self._popen.wait()
        with self._lock:
            _kill_group(self.pid)
            code = self._popen.wait()
        _tell(self._loop, self._end, code)
        _bury_group(self.pid)

    def _end(self, code: int) -> None:
        self.code = code
        self.ended.set()


async def spawn(command: Sequence[str], *, keep: Sequence[int], output: int) -> Spawned:
    """Start a program with the descriptors of `keep`, all that it prints going to `output`. Raises OSError."""
    loop = asyncio.get_running_loop()
    started: asyncio.Future[Spawned] = loop.create_future()

    def live() -> None:
        try:
            spawned = Spawned(_started(command, keep, output), loop)
        except OSError as error:
            _tell(loop, _settle, started, error)
            return
        _tell(loop, _settle, started, spawned)
        spawned.wait()

    threading.Thread(target=live, name="wakeful-process", daemon=True).start()
    return await started


def _started(command: Sequence[str], keep: Sequence[int], output: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        pass_fds=keep,
        start_new_session=True,
    )


def _settle(started: asyncio.Future[Spawned], found: Spawned | OSError) -> None:
    if started.done():  # nobody waits any more: it ends when its lifeline does
        return
    if isinstance(found, OSError):
        started.set_exception(found)
    else:
        started.set_result(found)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _bury_group(pid: int) -> None:
    """Wait for what the group leaves to us, who get the orphans where this process is the first of its container."""
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-pid, 0)


def _tell(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *arguments: object) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: the daemon is about to end
        loop.call_soon_threadsafe(call, *arguments)
