"""The command `wakeful` in a process forked from one that has imported it, since imports are most of what it takes.

Invariant: the process begins as a shell's does, with its own environment, folder and streams, and has a real end; the
one that forks runs no command itself, so that none sees what another left. How a command starts from nothing is shown
by those tests that open a process of their own.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final

from support.process import die_with_parent

TESTS: Final = Path(__file__).resolve().parents[1]
LONGEST_SECONDS: Final = 100.0  # less than a test may take


@dataclass(frozen=True, slots=True)
class Forking:
    """The process that forks, and the way to it: one command at a time."""

    process: subprocess.Popen[bytes]
    way: socket.socket
    turn: threading.Lock = field(default_factory=threading.Lock)

    def run(
        self, arguments: Sequence[str], *, stdin: bytes, folder: str, environ: Mapping[str, str]
    ) -> tuple[int, bytes, bytes]:
        """Run a command to its end; gives its exit code (a signal's below nought), standard output and error."""
        request = json.dumps([list(arguments), folder, dict(environ)]).encode()
        with self.turn, TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
            given.write(stdin)
            given.seek(0)
            socket.send_fds(self.way, [request], [given.fileno(), out.fileno(), err.fileno()])
            return self._ended(arguments), _written(out), _written(err)

    def _ended(self, arguments: Sequence[str]) -> int:
        try:
            code = self.way.recv(16)
        except TimeoutError:
            self.process.kill()  # and with it the command
            forking.cache_clear()
            raise AssertionError(f"{arguments} did not end within {LONGEST_SECONDS} s") from None
        assert code, "the process that forks commands has ended"
        return int(code)

    def close(self) -> None:
        """End it."""
        self.way.close()
        self.process.wait(10)


def _written(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


@cache
def forking() -> Forking:
    """The one of this process of tests, which ends with that."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "support.warm_child", str(theirs.fileno())],
            env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "PYTHONPATH": str(TESTS)},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call, before anything else runs there
        )
    ours.settimeout(LONGEST_SECONDS)
    started = Forking(process, ours)
    atexit.register(started.close)
    return started
