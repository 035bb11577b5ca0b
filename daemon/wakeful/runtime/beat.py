"""The heartbeat: one an instance, every few seconds, from a thread of its own with a connection of its own.

Invariant: nothing that a handler does to the event loop stops a beat (F27); each beat also looks the held rows up by
primary key, so that cancellations arrive and lost claims are seen (I8). How this process is stands in the beat's own
statement. What was found is posted to the event loop; the thread itself changes nothing but the lease. It ends last,
when every result is written.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import Final

import anyio

from wakeful.core.settings import DatabaseSettings
from wakeful.errors import SchemaMismatch, StoreError
from wakeful.runtime.holdings import Holding, Holdings
from wakeful.runtime.lease import Lease, Owner, suspended_clock
from wakeful.runtime.vitals import Vitals
from wakeful.store import instances
from wakeful.store.database import Database, open_database
from wakeful.store.outage import Outage
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import BEAT_FAILED, BEAT_RESTORED

JOIN_SECONDS: Final = 3.0
REMINDER_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """What one beat found out: `deposed` names an owner that is dead; the lists are of claims held by this process.

    `cancelled`: each with the reason that was given, if one was.
    """

    deposed: Owner | None = None
    lost: Sequence[Holding] = ()
    cancelled: Sequence[tuple[Holding, str | None]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Beating:
    """The thread's collaborators. `post` (what the event loop has to do), `beaten`, `free_workers` are called there."""

    settings: DatabaseSettings
    interval: float
    lease: Lease
    holdings: Holdings
    telemetry: Telemetry
    post: Callable[[Pulse], None]
    beaten: Callable[[], None] = lambda: None
    vitals: Vitals = field(default_factory=Vitals)
    free_workers: Callable[[], int | None] = lambda: None


class Heart:
    """The thread, once it runs."""

    def __init__(self, beating: Beating) -> None:
        # Posted in the context of whoever makes the thread, the daemon: only so may it cancel what a handler waits for.
        context = copy_context()
        self._beating = replace(beating, post=lambda pulse: context.run(beating.post, pulse))
        self._told_at: float | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: anyio.Event | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="wakeful-beat", daemon=True)

    def start(self) -> None:
        """Beat from now on."""
        self._thread.start()
        self._ready.wait(JOIN_SECONDS)

    def stop(self) -> None:
        """End the thread, within a bound: a connection that hangs is left to the end of the process."""
        if self._loop is not None and self._stop is not None:
            with suppress(RuntimeError):  # its loop has ended by itself
                self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread.is_alive():
            self._thread.join(JOIN_SECONDS)

    def _run(self) -> None:
        anyio.run(self._beat_on, backend="asyncio")

    async def _beat_on(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = anyio.Event()
        self._ready.set()
        # Its own bus: the state of the database is told by the main thread's connections. When the database is back,
        # it beats as soon as others can look: never later than one beat (I1).
        telemetry, settings = Telemetry(redactor=self._beating.telemetry.redactor), self._beating.settings
        outage = Outage(telemetry, longest=self._beating.interval)
        async with open_database(
            settings, telemetry, outage=outage, connections=1, application="wakeful beat"
        ) as database:
            await self._beat_until_stopped(database, self._stop)

    async def _beat_until_stopped(self, database: Database, stop: anyio.Event) -> None:
        while not stop.is_set():
            with anyio.move_on_after(self._beating.interval):
                await stop.wait()
            owner = self._beating.lease.owner
            if owner is not None and not stop.is_set():
                await self._beat_once(database, owner)

    async def _beat_once(self, database: Database, owner: Owner) -> None:
        beating, silent = self._beating, self._beating.lease.silent()
        try:
            alive = await beat_once(beating, database, owner)
        except (StoreError, SchemaMismatch) as error:
            beating.vitals.cut_off()
            self._tell_failed(error)
            return
        if alive and self._told_at is not None:
            self._told_at = None
            beating.telemetry.emit(BEAT_RESTORED, silent_seconds=round(silent, 1))

    def _tell_failed(self, error: StoreError | SchemaMismatch) -> None:
        """At first, and once a minute, however often it tries (F80)."""
        now, silent = time.monotonic(), round(self._beating.lease.silent(), 1)
        if self._told_at is None or now - self._told_at >= REMINDER_SECONDS:
            self._told_at = now
            self._beating.telemetry.emit(BEAT_FAILED, error=str(error), silent_seconds=silent)


async def beat_once(beating: Beating, database: Database, owner: Owner) -> bool:
    """Prove that `owner` is alive, then look its jobs up; False: it was deposed. Raises StoreError."""
    sent, by_the_wall = suspended_clock(), time.time()
    beating.lease.sending()
    report = beating.vitals.report(free_workers=beating.free_workers())
    server = await instances.beat(database, owner.pair, report, deadline=beating.interval)
    if server is None:
        beating.post(Pulse(deposed=owner))
        return False
    beating.vitals.compared(sent=by_the_wall, received=time.time(), server=server)
    beating.lease.beaten(owner, sent=sent)
    beating.beaten()
    await _look(beating, database)
    return True


async def _look(beating: Beating, database: Database) -> None:
    held = [one for one in beating.holdings.snapshot() if one.stage != "ending"]
    if not held:
        return
    holding, cancelled = await instances.look_up_held(database, held, deadline=beating.interval)
    pulse = Pulse(
        lost=[one for n, one in enumerate(held) if n not in holding],
        cancelled=[(held[n], cancelled[n]) for n in sorted(cancelled)],
    )
    if pulse.lost or pulse.cancelled:
        beating.post(pulse)
