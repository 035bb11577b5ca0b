"""The fleet: daemons as real processes, each behind a proxy of its own, started again when they end, as an init would.

Invariant: each process that ran is in the list of lifetimes, with how it ended and, where it left by itself, what it
said last.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from soak.evidence import Lifetime
from soak.plan import Plan, Timing
from support.process import Daemon, running_daemon
from support.proxy import Proxy, Upstream, running_proxy

LOOK_SECONDS = 0.05
AGAIN_SECONDS = 0.5
LAST_LINES = 12


@dataclass(slots=True, kw_only=True)
class Slot:
    """The place of one daemon: its proxy stays, its processes come and go."""

    name: str
    proxy: Proxy
    dsn: str
    ledger: Path
    settings: Mapping[str, object]
    lifetimes: list[Lifetime] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
    daemon: Daemon | None = None
    paused: bool = False
    _held: ExitStack = field(default_factory=ExitStack)
    _began: float = 0.0
    _asked: str = ""
    _asked_at: float = 0.0

    def start(self) -> None:
        """Start a process; on the main thread, whose end is to be its end."""
        running = running_daemon(
            self.dsn,
            settings=self.settings,
            ledger=self.ledger,
            tag=self.name,
            handlers=str(self.settings["handlers"]),
        )
        self._began, self._asked = time.monotonic(), ""
        self.daemon = self._held.enter_context(running)

    def pid(self) -> int | None:
        """The process that runs, if one does."""
        return self.daemon.pid if self.daemon is not None and self.daemon.process.poll() is None else None

    def send(self, signum: signal.Signals, *, why: str = "") -> None:
        """Send a signal; `why`: killed or stopped, for one that ends the process."""
        pid = self.pid()
        if pid is None:
            return
        if why:
            self._asked, self._asked_at = why, time.monotonic()
        os.kill(pid, signum)

    def pause(self, paused: bool) -> None:
        """Stop the process in its tracks, or let it go on."""
        self.paused = paused
        self.send(signal.SIGSTOP if paused else signal.SIGCONT)

    def ended(self) -> bool:
        """Whether it has ended; the first call that sees it notes its lifetime."""
        daemon = self.daemon
        if daemon is None:
            return True
        code = daemon.process.poll()
        if code is None:
            return False
        now = time.monotonic()
        self._held.close()
        self.daemon = None
        self.logs += daemon.raw
        self.lifetimes.append(
            Lifetime(
                slot=self.name,
                pid=daemon.pid,
                began=self._began,
                ended=now,
                why=self._asked or "left",
                exit_code=code,
                stop_seconds=now - self._asked_at if self._asked == "stopped" else 0.0,
                last_words=() if self._asked else tuple(line[:400] for line in daemon.raw[-LAST_LINES:]),
            )
        )
        return True

    def close(self) -> None:
        """Kill what still runs."""
        self._asked = self._asked or "over"
        self._held.close()
        self.ended()


@dataclass(slots=True, kw_only=True)
class Fleet:
    """All slots. `kept`: a process that has ended is started again, unless a fault keeps it down."""

    slots: Mapping[str, Slot]
    down: set[str] = field(default_factory=set)

    async def keep(self, stop: anyio.Event) -> None:
        """Start again whoever has ended, until told to stop."""
        while not stop.is_set():
            for slot in self.slots.values():
                if slot.ended() and slot.name not in self.down:
                    slot.start()
            await anyio.sleep(LOOK_SECONDS)

    def lifetimes(self) -> list[Lifetime]:
        """All that have ended."""
        return [life for slot in self.slots.values() for life in slot.lifetimes]


@contextmanager
def running_fleet(plan: Plan, upstream: Upstream, database: str, role: str, ledger: Path) -> Iterator[Fleet]:
    """Start the proxies, and the daemons; all of them are gone at the end."""
    with ExitStack() as stack:
        slots = {}
        for name in plan.slots:
            proxy = stack.enter_context(running_proxy(upstream))
            slot = Slot(
                name=name,
                proxy=proxy,
                dsn=proxy.dsn(database, role=role),
                ledger=ledger,
                settings=settings_of(plan.timing, name, isolated=plan.isolated),
            )
            stack.callback(slot.close)
            slots[name] = slot
        for slot in slots.values():
            slot.start()
        yield Fleet(slots=slots)


def settings_of(timing: Timing, name: str, *, isolated: bool) -> dict[str, object]:
    """The settings of one daemon."""
    return {
        "handlers": "soak.handlers,soak.isolated" if isolated else "soak.handlers",
        "http.enabled": "false",
        "log.level": "warning",
        "worker.name": name,
        "worker.concurrency": 24,
        "worker.threads": 6,
        "worker.processes": 1,
        "database.connections": 2,
        "database.connect_timeout": f"{timing.statement}s",
        "database.statement_timeout": f"{timing.statement}s",
        "lease.default": f"{timing.lease}s",
        "lease.long": f"{timing.lease}s",
        "lease.beat": f"{timing.beat}s",
        "reaper.interval": f"{timing.reaper}s",
        "poll.min": f"{timing.poll / 2}s",
        "poll.max": f"{timing.poll}s",
        "drain.grace": f"{timing.grace}s",
        "drain.interrupt": f"{timing.interrupt}s",
        "outbox.interval": "1s",
    }


@asynccontextmanager
async def kept(fleet: Fleet) -> AsyncIterator[None]:
    """Keep the fleet running beside the block."""
    stop = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(fleet.keep, stop)
        try:
            yield
        finally:
            stop.set()
