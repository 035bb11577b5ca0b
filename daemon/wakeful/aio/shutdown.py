"""The one shutdown switch of a process, and the one place that handles its stop signals.

Invariant: asked for once, a stop is never taken back. The first SIGTERM or SIGINT asks for it, the second
hurries it, the third ends the process at once with code 1, even while a handler blocks the event loop. The
same under asyncio's loop and uvloop. Code of others that takes the signals for itself loses them again (R8). What a
stop does, phase by phase, is the supervisor's.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Final

import anyio
from anyio.abc import TaskStatus

from wakeful.aio.periodic import every
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import SIGNALS_RETAKEN, STOP_HURRIED, STOP_REQUESTED

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
EXIT_BY_FORCE: Final = 1
SIGNALS_TO_DIE: Final = 3
LOOK_SECONDS: Final = 0.5
_LAST_WORDS: Final = (
    b"wakeful: third stop signal, exiting now; the leases run out and other instances take the jobs\n"
)


class Shutdown:
    """Two events, `requested` and `hurried`, for everybody to wait on.

    Not thread-safe: used on the loop only.
    """

    __slots__ = ("hurried", "requested")

    def __init__(self) -> None:
        self.requested = anyio.Event()
        self.hurried = anyio.Event()

    def request(self) -> None:
        """Ask for an orderly stop; asking again changes nothing."""
        self.requested.set()

    def hurry(self) -> None:
        """Ask that running handlers are not waited for any longer; implies `request`."""
        self.requested.set()
        self.hurried.set()


def hold_signals() -> None:
    """Keep stop signals pending until `watch_signals` runs: none is lost at a start, nor as PID 1.

    The first thing that a long-running command does, in the main thread, before it starts others.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)


def release_signals() -> None:
    """Undo `hold_signals`, for a command that simply ends where it is told to."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


async def watch_signals(
    shutdown: Shutdown,
    telemetry: Telemetry | None = None,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Turn stop signals into `shutdown` until cancelled.

    Start it before the first connection, in the main thread.
    """
    asked_for = _Counted(shutdown, telemetry or Telemetry())
    with _handlers(asked_for):
        task_status.started()
        async for _ in every(LOOK_SECONDS, anyio.Event()):
            _retake(asked_for)
            asked_for.act()


class _Counted:
    """Counts stop signals: `note` at once in the interpreter, `act` later on the loop, once for each that was noted."""

    __slots__ = ("_acted", "_noted", "_shutdown", "telemetry")

    def __init__(self, shutdown: Shutdown, telemetry: Telemetry) -> None:
        self._shutdown = shutdown
        self.telemetry = telemetry
        self._noted: list[str] = []
        self._acted = 0

    def note(self, signum: int, _frame: FrameType | None) -> None:
        """Runs amid whatever the main thread does: it may take no lock, so it emits nothing."""
        self._noted.append(signal.Signals(signum).name)
        if len(self._noted) >= SIGNALS_TO_DIE:
            try:
                if select.select([], [2], [], 0)[1]:  # a pipe that nobody reads would keep us
                    os.write(2, _LAST_WORDS)
            finally:
                os._exit(EXIT_BY_FORCE)

    def act(self) -> None:
        """Runs on the loop, when it is told and now and then: a handler may have taken the loop's descriptor away."""
        while self._acted < len(self._noted):
            name = self._noted[self._acted]
            self._acted += 1
            if self._acted == 1:
                self._shutdown.request()
                self.telemetry.emit(STOP_REQUESTED, signal=name)
            else:
                self._shutdown.hurry()
                self.telemetry.emit(STOP_HURRIED, signal=name)


@contextmanager
def _handlers(asked_for: _Counted) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    restore = [_install(loop, signum, asked_for) for signum in STOP_SIGNALS]
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        for undo in restore:
            undo()


def _retake(asked_for: _Counted) -> None:
    """Put our handlers back where a job's code has put its own, or none: a stop would kill, or do nothing."""
    taken = [signum for signum in STOP_SIGNALS if signal.getsignal(signum) != asked_for.note]
    if taken:
        loop = asyncio.get_running_loop()
        for signum in taken:
            _install(loop, signum, asked_for)
        asked_for.telemetry.emit(SIGNALS_RETAKEN, signals=[signum.name for signum in taken])
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


def _install(
    loop: asyncio.AbstractEventLoop, signum: signal.Signals, asked_for: _Counted
) -> Callable[[], None]:
    """Put the loop's handler in place, then the interpreter's own instead of the empty one that it left.

    Both run for one signal: the loop learns of it through the wake-up descriptor that `add_signal_handler`
    has set, which stays whatever the handler in the interpreter is. A blocked loop only gets the second.
    """
    previous = signal.getsignal(signum)
    loop.add_signal_handler(signum, asked_for.act)
    signal.signal(signum, asked_for.note)
    return partial(_uninstall, loop, signum, previous)


def _uninstall(
    loop: asyncio.AbstractEventLoop,
    signum: signal.Signals,
    previous: Callable[[int, FrameType | None], object] | int | signal.Handlers | None,
) -> None:
    loop.remove_signal_handler(signum)
    signal.signal(signum, signal.SIG_DFL if previous is None else previous)
