"""Every measurement by its name: what it is, how large by default, and the program of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from bench.figures import Outcome
from bench.filling import Load
from bench.measures.crowds import Crowd, backlog, crowd, history, lanes, nothing, running
from bench.measures.drain import MANY_WORKERS, Drain, drain
from bench.measures.endurance import kill, memory
from bench.measures.enqueueing import enqueue, enqueue_busy, enqueue_many
from bench.measures.holding import held
from bench.measures.idling import idle
from bench.measures.lateness import huge, late, scheduled
from bench.measures.limit import bare
from bench.measures.waking import wake
from bench.measures.wal import wal
from bench.sizes import Sizes
from bench.stage import Stage

Measure = Callable[[Stage, Sizes], Awaitable[Outcome]]
QUEUES = tuple(f"queue-{number}" for number in range(20))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One entry: a line for the list, the sizes that `--set` may replace, and what runs; long ones only by name."""

    title: str
    sizes: Mapping[str, float]
    run: Measure
    by_default: bool = True


def _drain(title: str, kind: Drain, jobs: int = 100_000) -> Measurement:
    return Measurement(title=title, sizes={"jobs": jobs}, run=drain(kind))


def _crowd(title: str, name: str, make: Crowd, rows: int) -> Measurement:
    sizes = {"rows": rows, "jobs": 100_000, "seconds": 4}
    return Measurement(title=title, sizes=sizes, run=crowd(name, make))


MEASUREMENTS: Mapping[str, Measurement] = {
    "bare": Measurement(
        title="the same SQL by hand, without a daemon: the limit", sizes={"jobs": 100_000}, run=bare
    ),
    "drain": _drain("no-op async jobs, defaults", Drain(name="drain", load=lambda jobs: Load(jobs=jobs))),
    "drain-100": _drain(
        "no-op async jobs, worker.concurrency=100",
        Drain(name="drain-100", load=lambda jobs: Load(jobs=jobs), settings=MANY_WORKERS),
    ),
    "drain-threads": _drain(
        "plain functions, in threads",
        Drain(name="drain-threads", load=lambda jobs: Load(jobs=jobs, job_type="bench.thread")),
    ),
    "drain-traced": _drain(
        "a span for each, by OpenTelemetry's SDK",
        Drain(name="drain-traced", load=lambda jobs: Load(jobs=jobs), settings={"handlers": "bench.traced"}),
    ),
    "drain-1k": _drain(
        "payloads of 1 KB", Drain(name="drain-1k", load=lambda jobs: Load(jobs=jobs, payload=1000))
    ),
    "drain-10k": _drain(
        "payloads of 10 KB",
        Drain(name="drain-10k", load=lambda jobs: Load(jobs=jobs, payload=10_000)),
        20_000,
    ),
    "drain-queues": _drain(
        "20 queues", Drain(name="drain-queues", load=lambda jobs: Load(jobs=jobs, queues=QUEUES))
    ),
    "drain-two": _drain("two daemons", Drain(name="drain-two", load=lambda jobs: Load(jobs=jobs), daemons=2)),
    "drain-four": _drain(
        "four daemons", Drain(name="drain-four", load=lambda jobs: Load(jobs=jobs), daemons=4)
    ),
    "wal": Measurement(
        title="bytes of WAL a job, part by part", sizes={"jobs": 20_000, "singles": 2_000}, run=wal
    ),
    "wake": Measurement(
        title="enqueue committed to handler started, idle daemon", sizes={"jobs": 300}, run=wake
    ),
    "idle": Measurement(title="a daemon with nothing to do", sizes={"seconds": 30, "settle": 15}, run=idle),
    "scheduled": Measurement(
        title="lateness of scheduled jobs and of retries", sizes={"jobs": 200, "seconds": 10}, run=scheduled
    ),
    "enqueue": Measurement(
        title="one job a transaction from 1, 8 and 32 connections, beside a bare INSERT",
        sizes={"seconds": 3},
        run=enqueue,
    ),
    "enqueue-busy": Measurement(
        title="the same while a daemon works", sizes={"seconds": 5}, run=enqueue_busy
    ),
    "enqueue-many": Measurement(
        title="bulk calls of 1,000 and of 20,000", sizes={"jobs": 100_000}, run=enqueue_many
    ),
    "late": Measurement(
        title="producers that commit late", sizes={"hold": 2, "producers": 10, "rate": 500}, run=late
    ),
    "huge": Measurement(
        title="one transaction of very many jobs", sizes={"jobs": 250_000, "rate": 500}, run=huge
    ),
    "held": Measurement(
        title="a snapshot held open under load (long: --set seconds=600 --set rate=3000)",
        sizes={"seconds": 60, "rate": 1000, "drain": 50_000},
        run=held,
    ),
    "small": _crowd("the small case that the next four are compared with", "small", nothing, 0),
    "backlog": _crowd("a huge backlog in the lane", "backlog", backlog, 1_000_000),
    "history": _crowd("finished rows (long: --set rows=10000000)", "history", history, 1_000_000),
    "running": _crowd("running rows at the head of the lane", "running", running, 20_000),
    "lanes": _crowd("lanes with work that others serve", "lanes", lanes, 10_000),
    "kill": Measurement(title="kill -9 until all is done", sizes={"jobs": 200}, run=kill),
    "memory": Measurement(
        title="resident memory over a million jobs", sizes={"jobs": 1_000_000}, run=memory, by_default=False
    ),
}
