"""Reads the gauges that concern the whole database into the metrics, in the background.

Invariant: a scrape never reaches the database (F88): it is given what was read last, and how long ago. Each instance
reads for itself, so that any one of them can be asked; the statement is bounded, whatever the backlog.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import anyio

from wakeful.aio.periodic import every
from wakeful.errors import StoreUnavailable
from wakeful.store.database import Database
from wakeful.store.gauges import Reading, read_gauges
from wakeful.telemetry.metrics import Metrics

INTERVAL: Final = 15.0
CAP: Final = 5000
AGE: Final = "wakeful_database_gauges_age_seconds"
# Each gauge, and which labels it has.
GAUGES: Final = (
    ("queue_jobs", ("queue", "status")),
    ("queue_oldest_due_seconds", ("queue",)),
    ("instances", ("state",)),
    ("alerts_open", ("kind",)),
    ("outbox_pending", ()),
    ("outbox_oldest_seconds", ()),
    ("outbox_sink_failing_seconds", ("sink",)),
    ("ready_dead_rows", ()),
    ("database_oldest_snapshot_seconds", ()),
)


async def run_gauges(
    database: Database,
    stop: anyio.Event,
    *,
    metrics: Metrics,
    interval: float = INTERVAL,
    turned: Callable[[], None] = lambda: None,
) -> None:
    """Read the gauges every `interval` seconds until `stop` is set."""
    async for _ in every(interval, stop):
        turned()
        try:
            show(metrics, await read_gauges(database, cap=CAP))
        except StoreUnavailable:
            await database.available(stop)


def show(metrics: Metrics, readings: list[Reading]) -> None:
    """Put one reading of everything into the metrics; what is not in it disappears."""
    for name, labels in GAUGES:
        values = [(_labels(labels, one), one.value) for one in readings if one.gauge == name]
        metrics.gauge(f"wakeful_{name}").replace(values)
    metrics.age(AGE).reset()


def _labels(names: tuple[str, ...], reading: Reading) -> dict[str, object]:
    return {name: reading.queue if name == "queue" else reading.label for name in names}
