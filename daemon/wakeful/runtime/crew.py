"""The workers of this instance as the claimer sees them: how many are free, and what waits for one.

Invariant: a job waits here only while a worker is about to become free; what has waited longer is given back unstarted.
Closing the crew is how workers end: each finishes what it runs, and takes nothing more.
"""

from __future__ import annotations

import math
import time
from typing import Final

import anyio

from wakeful.aio.wakeup import Wakeup
from wakeful.runtime.holdings import Holding

WAIT_SECONDS: Final = 1.0


class Crew:
    """A bounded number of workers and their inbox. Used on the event loop only.

    `wanted`: the claimer could have claimed more; the next free worker wakes it. `closed`: nothing is to be claimed.
    """

    def __init__(self, concurrency: int, vacancy: Wakeup) -> None:
        self.concurrency = concurrency
        self._vacancy = vacancy
        self.wanted = False
        self.closed = False
        self._busy = 0
        # Counted here: the stream forgets a job as soon as a worker is to wake up for it, which is before it runs.
        self._waiting = 0
        self._send, self._receive = anyio.create_memory_object_stream[Holding](math.inf)

    @property
    def waiting(self) -> int:
        """Jobs that wait for a worker, or for one that is about to wake up."""
        return self._waiting

    @property
    def busy(self) -> int:
        """Workers that run a job; one whose handler is stuck does not count, it was replaced."""
        return self._busy

    @property
    def free(self) -> int:
        """Jobs that can start at once."""
        return max(0, self.concurrency - self._busy - self.waiting)

    def put(self, holding: Holding) -> bool:
        """Hand a claimed job to the next free worker; False: the crew has closed, and the job is to be given back."""
        try:
            self._send.send_nowait(holding)
        except anyio.ClosedResourceError:
            return False
        self._waiting += 1
        return True

    async def next(self) -> Holding | None:
        """Wait for a job; None once the crew is closed and nothing waits."""
        try:
            holding = await self._receive.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            return None
        self._waiting -= 1
        self._busy += 1
        return holding

    def done(self) -> None:
        """A worker is free again (or its stuck handler was given up and a new worker takes its place)."""
        self._busy -= 1
        if self.wanted:
            self._vacancy.ring()

    def take_back_stale(self, now: float | None = None) -> list[Holding]:
        """Take out what has waited too long for a worker."""
        oldest_allowed = (time.monotonic() if now is None else now) - WAIT_SECONDS
        taken = self._take_all()
        for holding in taken:
            if holding.received > oldest_allowed:
                self.put(holding)
        return [one for one in taken if one.received <= oldest_allowed]

    def close(self) -> list[Holding]:
        """Take nothing more on; gives what waited and was never started."""
        self.closed = True
        taken = self._take_all()
        self._send.close()
        self._receive.close()
        return taken

    def _take_all(self) -> list[Holding]:
        taken: list[Holding] = []
        while True:
            try:
                taken.append(self._receive.receive_nowait())
            except (anyio.WouldBlock, anyio.EndOfStream, anyio.ClosedResourceError):
                self._waiting -= len(taken)
                return taken
