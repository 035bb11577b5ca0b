"""One peer through the same stages as ours: filled, drained by one worker process, woken, drained under a snapshot.

The clock of a peer's drain runs from the start of its first handler until its tables say that all jobs are done; that
of ours from the opening of the queue, so that its first claim counts. What is in doubt counts for the peer.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
from anyio.abc import Process
from anyio.streams.text import TextReceiveStream

from bench.daemons import PATIENCE_SECONDS, until
from bench.figures import Outcome, Sample
from bench.measures.waking import percentiles, told
from bench.peers.peers import ROOT, Peer
from bench.processes import tree_cpu_seconds
from bench.stage import Stage

WARM_UP = 20
PAUSE_SECONDS = 0.02
END_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """One drain: jobs, wall seconds, processor seconds of the worker and of the server."""

    jobs: int
    seconds: float
    worker_cpu: float
    server_cpu: float

    @property
    def rate(self) -> float:
        """Jobs a second."""
        return self.jobs / self.seconds


async def install(peer: Peer, here: Stage) -> None:
    """Install the peer's schema."""
    await _step(peer, here, "setup")


async def drain(peer: Peer, here: Stage, jobs: int) -> Drained:
    """Fill, start a worker, wait until all is done."""
    await _step(peer, here, "fill", str(jobs))
    async with here.connected() as connection:
        await connection.execute("vacuum (analyze)")
        used = tree_cpu_seconds(here.cluster.pid)
        async with _worker(peer, here, jobs=jobs) as (starts, process):
            began, started = (
                await anext(starts),
                tree_cpu_seconds(process.pid),
            )  # its imports are not its jobs'
            with anyio.fail_after(PATIENCE_SECONDS):
                await anext(starts)
            await until(connection, peer.gone)
            seconds = time.time() - began
            worker = tree_cpu_seconds(process.pid) - started
    server = tree_cpu_seconds(here.cluster.pid) - used
    return Drained(jobs=jobs, seconds=seconds, worker_cpu=worker, server_cpu=server)


async def wake(peer: Peer, here: Stage, rounds: int) -> list[float]:
    """Seconds from commits to starts, one job at a time, by the machine's clock on both sides."""
    seconds: list[float] = []
    async with (
        _worker(peer, here, jobs=0) as (starts, _),
        await anyio.open_process(
            [*peer.command, "produce"], env=_environment(here), cwd=ROOT, stderr=None
        ) as producer,
    ):
        assert producer.stdin is not None
        commits = _lines(producer)
        await anyio.sleep(3)  # it has started to listen by then
        for number in range(rounds + WARM_UP):
            await producer.stdin.send(b"\n")
            committed = float(await anext(commits))
            started = await anext(starts)
            if number >= WARM_UP:
                seconds.append(started - committed)
            await anyio.sleep(PAUSE_SECONDS)
        await producer.stdin.aclose()
    return seconds


def samples_of(peer: Peer, drained: Drained) -> list[Sample]:
    """A drain as figures."""
    how = f"{drained.jobs:,} no-op jobs, one process: {peer.settings}"

    def a_job(what: str, seconds: float) -> Sample:
        value = seconds / drained.jobs * 1e6
        return Sample(name=f"{peer.name}: {what} CPU a job", value=value, unit="µs", better="lower", how=how)

    return [
        Sample(name=f"{peer.name}: rate", value=drained.rate, unit="jobs/s", better="higher", how=how),
        a_job("worker", drained.worker_cpu),
        a_job("server", drained.server_cpu),
    ]


def waking_outcome(peer: Peer, seconds: list[float]) -> Outcome:
    """Waking as figures."""
    how = f"{len(seconds)} jobs one by one, 20 ms apart, enqueued by its own producer"
    return Outcome(samples=percentiles(f"{peer.name}: wake", seconds, how=how))


async def _step(peer: Peer, here: Stage, *arguments: str) -> None:
    await anyio.run_process([*peer.command, *arguments], env=_environment(here), cwd=ROOT)


@asynccontextmanager
async def _worker(
    peer: Peer, here: Stage, *, jobs: int
) -> AsyncIterator[tuple[AsyncIterator[float], Process]]:
    """Run the worker; gives the times at which handlers started, as they tell of them."""
    environment = {**_environment(here), "BENCH_JOBS": str(jobs)}
    with told(here) as ear, (here.folder / "worker.log").open("wb") as log:
        process = await anyio.open_process([*peer.command, "work"], env=environment, cwd=ROOT, stderr=log)

        async def datagrams() -> AsyncIterator[float]:
            while True:
                yield float(await asyncio.get_running_loop().sock_recv(ear, 100))

        async def printed() -> AsyncIterator[float]:
            async for line in _lines(process):
                if line.startswith("started "):
                    yield float(line.split()[1])

        try:
            yield (printed() if peer.driver.endswith(".mjs") else datagrams()), process
        finally:
            await _end(process)


async def _end(process: Process) -> None:
    """Ask for its end, and see to it: some hang, and nothing is measured any more."""
    with anyio.CancelScope(shield=True):
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        with anyio.move_on_after(END_SECONDS):
            await process.wait()
        if process.returncode is None:
            process.kill()
        await process.aclose()


async def _lines(process: Process) -> AsyncIterator[str]:
    assert process.stdout is not None
    kept = ""
    async for text in TextReceiveStream(process.stdout):
        *lines, kept = (kept + text).split("\n")
        for line in lines:
            yield line


def _environment(here: Stage) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PG", "WAKEFUL"))}
    return {
        **kept,
        "DATABASE_URL": here.dsn,
        "PYTHONPATH": str(ROOT),
        "BENCH_SOCKET": str(here.folder / "told"),
    }
