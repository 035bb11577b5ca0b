"""The workers of this instance as the claimer sees them: how many are free, and what waits for one.

Invariant: a job waits here only while a worker is about to become free; what has waited longer is given back unstarted.
A worker that is woken for a job and can't take it any more wakes the next one. Closing the crew is how workers end:
each finishes what it runs, and takes nothing more.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Container, Iterable
from typing import Final

import anyio

from wakeful.aio.wakeup import Wakeup
from wakeful.runtime.holdings import Holding

WAIT_SECONDS: Final = 1.0


class Crew:
    """A bounded number of workers and their inbox. Used on the event loop only.

    `wanted`: the claimer could have claimed more; it is woken by the next worker that finds nothing waiting, and as
    soon as only `low` jobs wait. `closed`: nothing is to be claimed. `started`: jobs that workers have taken so far.
    """

    def __init__(self, concurrency: int, vacancy: Wakeup) -> None:
        self.concurrency = concurrency
        self._vacancy = vacancy
        self.wanted = False
        self.low = -1
        self.closed = False
        self.started = 0
        self._busy = 0
        self._inbox: deque[Holding] = deque()
        self._idle: deque[anyio.Event] = deque()

    @property
    def waiting(self) -> int:
        """Jobs that wait for a worker, or for one that is about to wake up."""
        return len(self._inbox)

    def waiting_of_others(self, job_types: Container[str]) -> int:
        """Of those the ones of other types than these."""
        return sum(one.job.job_type not in job_types for one in self._inbox)

    @property
    def busy(self) -> int:
        """Workers that run a job; one whose handler is stuck does not count, it was replaced."""
        return self._busy

    @property
    def free(self) -> int:
        """Jobs that can start at once."""
        return max(0, self.concurrency - self._busy - len(self._inbox))

    def put(self, holding: Holding) -> bool:
        """Hand a claimed job to the next free worker; False: the crew has closed, and the job is to be given back."""
        return self.put_all((holding,))

    def put_all(self, holdings: Iterable[Holding]) -> bool:
        """The same for the jobs of one claim, in their order: all of them, or none."""
        if self.closed:
            return False
        before = len(self._inbox)
        self._inbox.extend(holdings)
        for _ in range(min(len(self._inbox) - before, len(self._idle))):
            self._wake_one()
        return True

    async def next(self) -> Holding | None:
        """Take the job that has waited longest, or wait for one; None once the crew is closed and nothing waits."""
        while (holding := self.take()) is None:
            if self.closed:
                return None
            await self._rest()
        return holding

    def take(self) -> Holding | None:
        """The same at once, where one waits: a coroutine of its own for each job would cost as much as the rest."""
        if not self._inbox:
            return None
        holding = self._inbox.popleft()
        self._busy += 1
        self.started += 1
        if self.wanted and len(self._inbox) == self.low:
            self._vacancy.ring()
        return holding

    def done(self) -> None:
        """A worker is free again (or its stuck handler was given up and a new worker takes its place)."""
        self._busy -= 1
        if self.wanted and not self._inbox:
            self._vacancy.ring()

    def want(self, low: int = -1) -> None:
        """Wake the claimer when a worker finds nothing to take, and when only `low` jobs wait."""
        self.wanted, self.low = True, low

    def take_back_stale(self, now: float | None = None) -> list[Holding]:
        """Take out what has waited too long for a worker."""
        oldest_allowed = (time.monotonic() if now is None else now) - WAIT_SECONDS
        stale = [one for one in self._inbox if one.received <= oldest_allowed]
        if stale:
            self._inbox = deque(one for one in self._inbox if one.received > oldest_allowed)
        return stale

    def close(self) -> list[Holding]:
        """Take nothing more on; gives what waited and was never started."""
        self.closed = True
        taken = list(self._inbox)
        self._inbox.clear()
        while self._idle:
            self._wake_one()
        return taken

    async def _rest(self) -> None:
        woken, called = False, anyio.Event()
        self._idle.append(called)
        try:
            await called.wait()
            woken = True
        finally:
            if not woken and called.is_set():
                self._wake_one()
            elif not woken:
                self._idle.remove(called)

    def _wake_one(self) -> None:
        if self._idle:
            self._idle.popleft().set()
