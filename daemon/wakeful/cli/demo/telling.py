"""The loop that tells: looks at the jobs a few times a second, and writes what has changed and how it stands.

Invariant: everything is told once, the last changes of the drain too; an outage of the database or a reader that has
gone ends nothing but what can't be told.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import anyio

from wakeful.aio.periodic import every
from wakeful.aio.shutdown import Shutdown
from wakeful.cli.demo.changes import changes
from wakeful.cli.demo.entries import Entry
from wakeful.cli.demo.frame import frame
from wakeful.cli.demo.news import News
from wakeful.cli.demo.paint import Line, line, span
from wakeful.cli.demo.screen import Screen, silence
from wakeful.cli.demo.story import UNHANDLED, Snapshot, Tally
from wakeful.cli.demo.summary import summary
from wakeful.cli.demo.watching import Watch
from wakeful.errors import StoreUnavailable
from wakeful.store.database import Database

LOOK_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What ends a run by itself: `all_begun`, and each of those has ended; `alert`: AI_CHECK's alert was told, too."""

    all_begun: Callable[[], bool]
    alert: bool


@dataclass(slots=True, kw_only=True)
class Teller:
    """Tells on `screen` what `watch` sees in `database` and what `news` has."""

    screen: Screen
    watch: Watch
    database: Database
    news: News
    shutdown: Shutdown
    clock: Callable[[], datetime]
    told: Snapshot
    goal: Goal | None
    tally: Tally = field(default_factory=Tally)
    reached: bool = False

    async def run(self, over: anyio.Event) -> None:
        """Tell until `over` is set, and then once more; asks for the stop when the goal is reached."""
        async for _ in every(LOOK_SECONDS, over, jitter=0):
            # Asked before the look: what was begun by then, the look has seen.
            all_begun = self.goal is not None and self.goal.all_begun()
            await self._turn(over)
            if all_begun and self._has_ended():
                self.reached = True
                self.shutdown.request()
        await self._turn(over)
        self.write([], ())

    def write(self, entries: list[Entry], lines: tuple[Line, ...] = ()) -> None:
        """Write; when nobody reads any more, the demo stops in the orderly way, and what is left goes nowhere."""
        try:
            self.screen.write(entries, lines)
        except OSError:
            silence(sys.stdout)
            self.shutdown.request()

    async def _turn(self, over: anyio.Event) -> None:
        try:
            snapshot = await self.watch.look(self.database)
        except StoreUnavailable:
            self.write(self.news.take())
            await self.database.available(over)
            return
        self.write([*self._entries(snapshot), *self.news.take()], self._frame(snapshot))
        ended = [one for one in snapshot.pipelines if one.ended]
        self.watch.forget(ended, [job for job in snapshot.others if job.ended])
        self.told = self.watch.latest

    def _entries(self, snapshot: Snapshot) -> list[Entry]:
        now, style = self.clock(), self.screen.style
        entries = list(changes(self.told, snapshot, style=style, now=now))
        for pipeline in snapshot.pipelines:
            if pipeline.ended:
                entries.append(summary(pipeline, style=style, now=now))
                self.tally.count(pipeline)
        return entries

    def _has_ended(self) -> bool:
        """Whether nothing is open that the goal waits for."""
        latest = self.watch.latest
        unhandled = any(job.job_type == UNHANDLED for job in latest.open_others)
        is_told = self.news.alerts > 0 or not (self.goal and self.goal.alert)
        return not latest.open_pipelines and not unhandled and is_told

    def _frame(self, snapshot: Snapshot) -> tuple[Line, ...]:
        room = self.screen.room
        if room is None:
            return ()
        return tuple(
            frame(snapshot, self._footer(snapshot), room=room, style=self.screen.style, now=self.clock())
        )

    def _footer(self, snapshot: Snapshot) -> Line:
        running = len(snapshot.open_pipelines) + len(snapshot.open_others)
        counts = f"{running} running, {self.tally.published} published"
        died = (span(f", {len(self.tally.died)} died", "bad"),) if self.tally.died else ()
        hint = (
            "stopping: running jobs finish (Ctrl-C again: now)"
            if self.shutdown.requested.is_set()
            else "Ctrl-C stops"
        )
        return line(span(f"  {counts}", "dim"), *died, span(f"   {hint}", "dim"))
