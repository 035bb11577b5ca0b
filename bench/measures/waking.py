"""From the commit of an enqueue to the start of its handler, with a daemon that has nothing else to do."""

from __future__ import annotations

import asyncio
import socket
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bench.daemons import daemons
from bench.figures import Outcome, Sample
from bench.sizes import Sizes
from bench.stage import Stage

PAUSE_SECONDS = 0.02
WARM_UP = 20
PARTS = (50, 95, 99)


async def wake(here: Stage, sizes: Sizes) -> Outcome:
    """Enqueue one job, wait until its handler has told, and again."""
    seconds: list[float] = []
    async with here.connected() as connection, daemons(here, connection):
        with told(here) as ear:
            for number in range(sizes.whole("jobs") + WARM_UP):
                await connection.fetch("select wakeful.enqueue('bench.tell')")
                committed = time.perf_counter()
                await asyncio.get_running_loop().sock_recv(ear, 100)
                if number >= WARM_UP:
                    seconds.append(time.perf_counter() - committed)
                await asyncio.sleep(PAUSE_SECONDS)
    how = f"{sizes.whole('jobs')} jobs one by one, 20 ms apart; the handler tells by a datagram"
    return Outcome(samples=percentiles("wake", seconds, how=how))


@contextmanager
def told(here: Stage) -> Iterator[socket.socket]:
    """A socket that handlers of `bench.tell` send their job's id to."""
    path = here.folder / "told"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        path.unlink(missing_ok=True)
        ear.bind(str(path))
        ear.setblocking(False)  # noqa: FBT003 - the standard library's
        yield ear


def percentiles(name: str, seconds: Sequence[float], *, how: str) -> list[Sample]:
    """The usual parts of a distribution and its end, in milliseconds."""
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    parts = {f"p{part}": cuts[part - 1] for part in PARTS} | {"slowest": max(seconds)}
    return [
        Sample(name=f"{name}: {part}", value=value * 1000, unit="ms", better="lower", how=how)
        for part, value in parts.items()
    ]
