"""A daemon as a process of its own: started as a user would, read by its log lines, ended by real signals.

The process never outlives its test: it is killed when the block ends, and by the kernel when the test's process dies.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from support.ledger import Ledger

TESTS = Path(__file__).resolve().parents[1]
_PR_SET_PDEATHSIG = 1

Line = dict[str, object]


class Daemon:
    """A running process and what it has logged."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[Line] = []
        self.raw: list[str] = []
        self._heard = threading.Condition()
        self._ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The process id."""
        return self.process.pid

    def wait_for(self, event: str, *, timeout: float = 40.0, count: int = 1, **fields: object) -> Line:
        """Wait until the event was logged `count` times with these fields; gives the last of them."""

        def seen() -> list[Line]:
            return [line for line in self.lines if _matches(line, event, fields)]

        deadline = time.monotonic() + timeout
        with self._heard:
            while len(seen()) < count:
                left = deadline - time.monotonic()
                if left <= 0 or (self._ended and len(seen()) < count):
                    raise AssertionError(f"no {event} {fields} (x{count}) in:\n" + "\n".join(self.raw[-60:]))
                self._heard.wait(left)
            return seen()[count - 1]

    def wait_until_said(self, text: str, *, timeout: float = 40.0) -> None:
        """Wait for a line of output that is exactly this."""
        with self._heard:
            if (
                not self._heard.wait_for(lambda: text in self.raw or self._ended, timeout)
                or text not in self.raw
            ):
                raise AssertionError(f"no line {text!r} in:\n" + "\n".join(self.raw[-60:]))

    def events(self, event: str, **fields: object) -> list[Line]:
        """All lines of this event so far."""
        with self._heard:
            return [line for line in self.lines if _matches(line, event, fields)]

    def send(self, signum: signal.Signals) -> None:
        """Send a signal to this process alone."""
        self.process.send_signal(signum)

    def exit_code(self, *, timeout: float = 40.0) -> int:
        """Wait for the end and give the exit code."""
        code = self.process.wait(timeout)
        self._reader.join(5)
        return code

    def port(self) -> int:
        """The port that its HTTP server listens on."""
        return int(str(self.wait_for("http.started")["port"]))

    def close(self) -> None:
        """Let go of the pipe, once the process has ended."""
        self._reader.join(5)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for text in self.process.stdout:
            with self._heard:
                self.raw.append(text.rstrip("\n"))
                if text.startswith("{"):
                    self.lines.append(json.loads(text))
                self._heard.notify_all()
        with self._heard:
            self._ended = True
            self._heard.notify_all()


@contextmanager
def running_daemon(
    dsn: str,
    *arguments: str,
    settings: Mapping[str, object] | None = None,
    ledger: Path | None = None,
    tag: str = "",
    command: Sequence[str] = ("run",),
    handlers: str = "support.probes",
    around: Sequence[str] = (),
) -> Iterator[Daemon]:
    """Run `wakeful run` on a database. `settings`: WAKEFUL__SECTION__KEY by "section.key"; lists with commas.

    `around`: a command that runs it, such as `unshare`.
    """
    given: dict[str, object] = {
        "handlers": handlers,
        "http.port": 0,
        "log.format": "json",
        "log.level": "debug",
        **(settings or {}),
    }
    environment = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("WAKEFUL", "PG", "DATABASE_URL"))
    }
    environment |= {
        f"WAKEFUL__{key.replace('.', '__').upper()}": _shown(value) for key, value in given.items()
    }
    environment |= {"DATABASE_URL": dsn, "PYTHONPATH": str(TESTS), "LEDGER_TAG": tag, "PYTHONUNBUFFERED": "1"}
    if ledger is not None:
        environment["LEDGER"] = str(ledger)
    process = subprocess.Popen(
        [*around, sys.executable, "-m", "wakeful", *command, *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call, before anything else runs there
    )
    daemon = Daemon(process)
    try:
        yield daemon
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
        process.wait(10)
        daemon.close()


def entries(ledger: Path) -> list[Line]:
    """What the ledger says so far."""
    return Ledger(ledger).lines()


def _matches(line: Line, event: str, fields: Mapping[str, object]) -> bool:
    return line.get("event") == event and all(line.get(key) == value for key, value in fields.items())


def _shown(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def die_with_parent() -> None:
    """Be killed when the process that started this one ends: for the child, before it becomes its program."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
