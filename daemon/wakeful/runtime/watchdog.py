"""The watchdog: a thread that sees when the event loop stands still, says who blocks it, and ends a dead process.

Invariant: a blocked loop costs a warning that names the job and shows the stack, not the lease. A loop that does not
turn while a job is past its deadline and grace is dead for good (I14); a process that can't stop a handler while its
lease runs out must not live on (I13): both end with code 1, and the log names the jobs.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import anyio

from wakeful.aio.periodic import pause
from wakeful.runtime.attempts import TICK_SECONDS, Attempt, Attempts
from wakeful.runtime.lease import EXIT_AT, Lease
from wakeful.runtime.vitals import Vitals
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import LOOP_BLOCKED, LOOP_STALLED
from wakeful.telemetry.health import Health

LOOK_SECONDS: Final = 0.25
PULSE_SECONDS: Final = 0.1
IDLE_SECONDS: Final = 1.0  # while no handler runs that could block the loop
BLOCKED_SECONDS: Final = 1.0
STACK_LIMIT: Final = 30
LAST_WORDS_SECONDS: Final = 0.5
EXIT_CODE: Final = 1


def exit_hard(code: int) -> None:
    """End the process at once; leases run out and other instances take the jobs."""
    _try_briefly(_flush)
    os._exit(code)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


def _try_briefly(call: Callable[[], None]) -> None:
    """Call what may wait for ever for a pipe that nobody reads, and may fail; nothing depends on it."""

    def attempt() -> None:
        with suppress(AttributeError, OSError, ValueError, RuntimeError):
            call()

    with suppress(RuntimeError):  # no thread can be started any more
        trying = threading.Thread(target=attempt, daemon=True)
        trying.start()
        trying.join(LAST_WORDS_SECONDS)


@dataclass(slots=True, kw_only=True)
class Watchdog:
    """Watches the event loop that runs `pulse`; `die` ends the process, or raises in a test of it."""

    attempts: Attempts
    lease: Lease
    telemetry: Telemetry
    health: Health
    die: Callable[[int], None] = exit_hard
    blocked_after: float = BLOCKED_SECONDS
    vitals: Vitals = field(default_factory=Vitals)
    turned_at: float = field(default_factory=time.monotonic)
    _rest: float = PULSE_SECONDS
    _loop: asyncio.AbstractEventLoop | None = None
    _main: int = 0
    _told_at: float = 0.0
    _doomed_before: bool = False
    _stop: threading.Event = field(default_factory=threading.Event)

    async def pulse(self, stop: anyio.Event) -> None:
        """Turn with the loop until `stop` is set; the thread looks at how late that is."""
        self._loop, self._main = asyncio.get_running_loop(), threading.get_ident()
        self._rest, self.turned_at = PULSE_SECONDS, time.monotonic()
        thread = threading.Thread(target=self._watch, name="wakeful-watchdog", daemon=True)
        thread.start()
        try:
            while not stop.is_set():
                if not self.attempts.running:
                    self._turned(IDLE_SECONDS)
                    await self.attempts.begun(stop, IDLE_SECONDS, self._turned)
                self._turned()
                await pause(stop, PULSE_SECONDS)
                self._turned()
        finally:
            self._stop.set()

    def _turned(self, rest: float = TICK_SECONDS + PULSE_SECONDS) -> None:
        """The loop runs now, and is to come by again after `rest` seconds."""
        now = time.monotonic()
        self.vitals.stood_still(self.turned_at, now - self.turned_at - self._rest)
        self._rest, self.turned_at = rest, now

    def _watch(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            self.look()

    def look(self) -> None:
        """One look, from the thread."""
        turned_at = self.turned_at
        late = time.monotonic() - turned_at - self._rest
        if late >= self.blocked_after:
            self._tell_blocked(turned_at, late)
        doomed, seconds = self._doomed(late)
        # Twice in a row: a process that was paused as a whole has a moment to see it, and to beat again.
        if doomed and self._doomed_before:
            self._end(doomed, seconds)
        self._doomed_before = bool(doomed)

    def _doomed(self, late: float) -> tuple[list[Attempt], float]:
        """Give the attempts that this process must end for, and for how long something stands still."""
        running, now, silent = self._running(), time.monotonic(), self.lease.silent()
        overdue = [one for one in running if now > one.deadline + one.grace]
        if overdue and late >= self.blocked_after:
            return overdue, late
        return [one for one in running if silent >= EXIT_AT * one.holding.lease], silent

    def _running(self) -> list[Attempt]:
        for _ in range(3):
            try:
                return list(self.attempts.running.values())
            except RuntimeError:  # the loop changed it meanwhile
                continue
        return []

    def _tell_blocked(self, turned_at: float, late: float) -> None:
        attempt = self._on_the_loop()
        job = None if attempt is None else attempt.holding.job
        self.vitals.stood_still(turned_at, late, None if job is None else job.job_type)
        if self._told_at == turned_at:
            return
        self._told_at = turned_at
        self.health.lagged(late)
        self.telemetry.emit(
            LOOP_BLOCKED,
            job_id=None if job is None else str(job.job_id),
            job_type=None if job is None else job.job_type,
            seconds=round(late, 1),
            stack=self._stack(),
        )

    def _on_the_loop(self) -> Attempt | None:
        current = asyncio.current_task(self._loop) if self._loop is not None else None
        return next((one for one in self._running() if one.task is current), None)

    def _stack(self) -> str:
        frame = sys._current_frames().get(self._main)
        return "" if frame is None else "".join(traceback.format_stack(frame)[-STACK_LIMIT:])

    def _end(self, attempts: list[Attempt], seconds: float) -> None:
        jobs = [f"{one.holding.job.job_type} {one.job_id}" for one in attempts]
        self.telemetry.emit(LOOP_STALLED, jobs=jobs, seconds=round(seconds, 1), stack=self._stack())
        _try_briefly(lambda: faulthandler.dump_traceback(all_threads=True))
        self.die(EXIT_CODE)
