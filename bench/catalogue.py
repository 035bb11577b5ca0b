"""Every measurement by its name: what it is, how large by default, and the program of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from bench.figures import Outcome
from bench.filling import Load
from bench.measures.drain import BEST, Drain, drain
from bench.measures.idling import idle
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


MEASUREMENTS: Mapping[str, Measurement] = {
    "bare": Measurement(
        title="the same SQL by hand, without a daemon: the limit", sizes={"jobs": 100_000}, run=bare
    ),
    "drain": _drain("no-op async jobs, defaults", Drain(name="drain", load=lambda jobs: Load(jobs=jobs))),
    "drain-best": _drain(
        "no-op async jobs, worker.concurrency=100",
        Drain(name="drain-best", load=lambda jobs: Load(jobs=jobs), settings=BEST),
    ),
    "drain-threads": _drain(
        "plain functions, in threads",
        Drain(name="drain-threads", load=lambda jobs: Load(jobs=jobs, job_type="bench.thread")),
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
}
