"""What the measuring program and a peer's driver say to each other; drivers run in an environment of their own.

A driver is a program: `setup` installs the peer, `fill N` enqueues no-op jobs in bulk, `work` runs a worker until
SIGTERM, `produce` enqueues one job for each line that it reads and answers with the time of its commit. A handler tells
by a datagram when it has started: the first one and the last of BENCH_JOBS, or each one where BENCH_JOBS is 0.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

Step = Callable[[], Awaitable[None]]


@dataclass(slots=True)
class Teller:
    """Tells the measuring program that a handler has started."""

    jobs: int = field(default_factory=lambda: int(os.environ.get("BENCH_JOBS", "0")))
    count: int = 0
    mouth: socket.socket = field(default_factory=lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))

    def started(self) -> None:
        """Called by each handler as all that it does."""
        self.count += 1
        if self.count in (1, self.jobs) or not self.jobs:
            self.mouth.sendto(str(time.time()).encode(), os.environ["BENCH_SOCKET"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """A peer in the words of the protocol."""

    setup: Step
    fill: Callable[[int], Awaitable[None]]
    work: Step
    enqueue_one: Step


def dsn() -> str:
    """The database of this run."""
    return os.environ["DATABASE_URL"]


async def run(driver: Driver) -> None:
    """Do what the command line says."""
    match sys.argv[1:]:
        case ["setup"]:
            await driver.setup()
        case ["fill", number]:
            await driver.fill(int(number))
        case ["work"]:
            await driver.work()
        case ["produce"]:
            await _produce(driver)
        case _:
            sys.exit("setup | fill N | work | produce")


async def _produce(driver: Driver) -> None:
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, sys.stdin.readline):
        await driver.enqueue_one()
        print(time.time(), flush=True)
