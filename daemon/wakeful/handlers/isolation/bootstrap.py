"""The first lines of a process of handlers: tied to its parent, bounded in memory, and with its parent's import path.

Run as ``python -P bootstrap.py CONNECTION LIFELINE``, two file descriptors. Standard library only, until the first
message has said where the rest is. Invariant: the whole process group ends with the parent, however that ends: on Linux
the kernel itself kills it when the lifeline's other end is closed, also while C code holds the interpreter's lock.
"""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import importlib
import io
import json
import os
import resource
import select
import signal
import struct
import sys
import threading
from pathlib import Path
from typing import Any

# What an interpreter with its libraries maps and never touches; the limit proper is watched by the parent.
UNTOUCHED_BYTES = 512 * 1024 * 1024
PREFERRED_BY_THE_KERNEL = "500"

_F_SETSIG = 10
_OOM_SCORE = Path("/proc/self/oom_score_adj")


def main(connection: int, lifeline: int) -> int:
    """Get ready, and serve until the parent says that it is over; gives the exit code."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for descriptor in (connection, lifeline):  # what the handler starts is not to hold them open
        os.set_inheritable(descriptor, False)  # noqa: FBT003
    _end_with(lifeline)
    faulthandler.enable()
    hello = _read(connection)
    _limit_memory(hello["memory"])
    if isinstance(sys.stdout, io.TextIOWrapper):  # what is printed is of the attempt that prints it
        sys.stdout.reconfigure(line_buffering=True)
    sys.path[:] = hello["path"]
    child = importlib.import_module("wakeful.handlers.isolation.child")
    code: int = child.serve_process(connection, hello)
    return code


def _end_with(lifeline: int) -> None:
    if sys.platform != "linux":
        threading.Thread(target=_watch, args=(lifeline,), daemon=True).start()
        return
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(lifeline, _F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    poll = select.poll()
    poll.register(lifeline, select.POLLIN)
    if poll.poll(0):  # it was closed before we asked: nobody would tell us
        _end()


def _watch(lifeline: int) -> None:
    os.read(lifeline, 1)  # nothing is ever written: it comes back when the other end is closed
    _end()


def _end() -> None:
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _limit_memory(limit: int) -> None:
    """Have a leap past the limit refused at once, and be the first that the kernel ends when the machine is full."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError):
        _OOM_SCORE.write_text(PREFERRED_BY_THE_KERNEL)
    if limit:
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        most = limit + UNTOUCHED_BYTES
        resource.setrlimit(resource.RLIMIT_DATA, (most if hard < 0 else min(most, hard), hard))


def _read(connection: int) -> dict[str, Any]:
    (size,) = struct.unpack(">I", _exactly(connection, 4))
    hello: dict[str, Any] = json.loads(_exactly(connection, size))
    return hello


def _exactly(connection: int, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = os.read(connection, size - len(found))
        if not more:
            sys.exit(1)
        found += more
    return found


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
