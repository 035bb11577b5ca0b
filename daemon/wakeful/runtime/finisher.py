"""The finisher: gathers what attempts came to, and has it written together.

Invariant: a worker is free when it has handed its conclusion over; the conclusion is kept until the database has taken
it, however late, and only the fence may refuse it (I1). A flush starts at once when none is under way, so batches grow
by themselves with the load; within a few milliseconds of a large one the next waits for more, which is on its way. What
brings follow-up jobs or alerts along goes a way of its own and holds nobody up (I2).
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import anyio

from wakeful.aio.wakeup import Wakeup, ring_when_set
from wakeful.errors import StoreBusy, StoreUnavailable
from wakeful.runtime.conclusion import DONE, Conclusion
from wakeful.runtime.endings import tell_ends
from wakeful.runtime.flush import Flushed, Flushing, flush, flush_alone
from wakeful.runtime.holdings import Holdings
from wakeful.runtime.patience import Patience
from wakeful.telemetry.events import FLUSH_COMMITTED, FLUSH_FAILED
from wakeful.telemetry.health import Health

MOST_TOGETHER: Final = 1000
# A statement costs as much as fifty of its rows, here and in the server: a drain gathers, a lone job never waits.
LARGE: Final = 50
ENOUGH_TOGETHER: Final = 500
GATHER_SECONDS: Final = 0.004
AGAIN_SECONDS: Final = 0.2
TURN_SECONDS: Final = 20.0  # idle, it turns all the same: to be seen alive
STUCK_SECONDS: Final = 600.0  # a batch that is split to its last bad value takes its time
CROWDED: Final = 4 * MOST_TOGETHER


class Finisher:
    """Collects conclusions. Used on the event loop only.

    `on_death` is called when a job was written DEAD, or an alert of its handler; `on_later` with the seconds after
    which a job runs again. `gather`: for how many seconds at most a flush waits after a large one.
    """

    def __init__(
        self,
        flushing: Flushing,
        holdings: Holdings,
        *,
        on_death: Callable[[], None] = lambda: None,
        on_later: Callable[[float], None] = lambda seconds: None,
        gather: float = GATHER_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._flushing = flushing
        self.holdings = holdings
        self._on_death = on_death
        self._on_later = on_later
        self._gather = gather
        self._clock = clock
        self._gather_until = -math.inf
        self._together: deque[Conclusion] = deque()
        self._alone: deque[Conclusion] = deque()
        self._bell_together = Wakeup()
        self._enough = Wakeup()
        self._bell_alone = Wakeup()
        self._patience = Patience(flushing)
        self._unsettled = 0
        self._room = anyio.Event()
        self._all_settled = anyio.Event()

    @property
    def unsettled(self) -> int:
        """Conclusions that the database has not yet taken."""
        return self._unsettled

    def submit(self, conclusion: Conclusion) -> None:
        """Hand a conclusion over; it is written soon, together with others."""
        conclusion.holding.stage = "ending"
        self._unsettled += 1
        if conclusion.alone:
            self._alone.append(conclusion)
            self._bell_alone.ring()
        else:
            self._together.append(conclusion)
            self._bell_together.ring()
            if len(self._together) == ENOUGH_TOGETHER:
                self._enough.ring()

    @property
    def crowded(self) -> bool:
        """Whether too much is unwritten for workers to go on."""
        return self._unsettled > CROWDED

    async def room(self) -> None:
        """Wait while too much is unwritten: workers must not outrun the finisher."""
        while self.crowded:
            if self._room.is_set():  # else others wait for it already
                self._room = anyio.Event()
            await self._room.wait()

    async def settled(self) -> None:
        """Wait until the database has taken everything."""
        while self._unsettled:
            if self._all_settled.is_set():
                self._all_settled = anyio.Event()
            await self._all_settled.wait()

    async def run(self, stop: anyio.Event, health: Health | None = None) -> None:
        """Write until `stop` is set and nothing is left to write; `health` watches that both ways turn."""
        watched = health or Health()
        async with anyio.create_task_group() as group:
            for bell in (self._bell_together, self._bell_alone):
                group.start_soon(ring_when_set, bell, stop)
            async with anyio.create_task_group() as writers:
                writers.start_soon(self._write_together, stop, watched)
                writers.start_soon(self._write_alone, stop, watched)
            group.cancel_scope.cancel()

    async def _write_together(self, stop: anyio.Event, health: Health) -> None:
        with health.loop("finisher", bound=STUCK_SECONDS) as turned:
            while self._unsettled or not stop.is_set():
                turned()
                hurried = self._together or stop.is_set()
                await self._bell_together.wait(AGAIN_SECONDS if hurried else TURN_SECONDS)
                if not stop.is_set():
                    await self._gathered()
                batch = [self._together.popleft() for _ in range(min(len(self._together), MOST_TOGETHER))]
                if batch:
                    await self._attempt(batch)
                if len(batch) >= LARGE:
                    self._gather_until = self._clock() + self._gather

    async def _gathered(self) -> None:
        """Wait until enough are there, where a large flush has ended just now."""
        seconds = self._gather_until - self._clock()
        if seconds > 0 and len(self._together) < ENOUGH_TOGETHER:
            self._enough = Wakeup()  # without the ring of those that are written already
            await self._enough.wait(seconds)

    async def _write_alone(self, stop: anyio.Event, health: Health) -> None:
        with health.loop("finisher_alone", bound=STUCK_SECONDS) as turned:
            while self._unsettled or not stop.is_set():
                turned()
                await self._bell_alone.wait(AGAIN_SECONDS if self._alone or stop.is_set() else TURN_SECONDS)
                await self._patience.keep(self._alone)
                for _ in range(len(self._alone)):
                    turned()
                    await self._attempt([self._alone.popleft()])

    async def _attempt(self, batch: Sequence[Conclusion]) -> None:
        began = time.monotonic()
        alone = batch[0].alone
        try:
            if alone:
                flushed = await flush_alone(self._flushing, batch[0], behind=len(self._alone))
            else:
                flushed = await flush(self._flushing, batch)
        except StoreUnavailable as error:
            if isinstance(error, StoreBusy):  # an outage is told once, for all that it touches
                self._flushing.telemetry.emit(FLUSH_FAILED, jobs=len(batch), error=str(error))
            (self._alone if alone else self._together).extendleft(reversed(batch))
            await self._flushing.database.available(anyio.Event())
            return
        self._settle(flushed, alone=alone)
        seconds = round(time.monotonic() - began, 4)
        self._flushing.telemetry.emit(FLUSH_COMMITTED, jobs=len(flushed.settled), seconds=seconds)

    def _settle(self, flushed: Flushed, *, alone: bool) -> None:
        self._unsettled -= len(flushed.settled)
        self.holdings.drop(*[conclusion.holding for conclusion, _ in flushed.settled])
        tell_ends(self._flushing.telemetry, flushed.settled)
        for conclusion, landing in flushed.settled:
            if conclusion.landed is not None:
                conclusion.landed(landing)
            if landing is DONE and not alone:
                continue
            if landing.fate == "DEAD" or (alone and conclusion.extras[1]):
                self._on_death()
            if landing.delay > 0.0:
                self._on_later(landing.delay)
        for conclusion in flushed.again:
            (self._alone if conclusion.alone else self._together).append(conclusion)
        # What could not be written waits for its time; what came over from the other way must wake this one.
        if self._together and (flushed.settled or alone):
            self._bell_together.ring()
        if not self.crowded:
            self._room.set()
        if not self._unsettled:
            self._all_settled.set()
