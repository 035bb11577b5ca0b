"""Reads the gauges that concern the whole database into the metrics, in the background.

Invariant: a scrape never reaches the database (F88): it is given what was read last, and how long ago. One instance
reads for all, the oldest that lives; the others show none of these gauges. Nobody is told to: each asks whose turn it
is, and two that read for a moment do no harm (R10). The statement is bounded, whatever the backlog is and whatever
producers call their queues.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import anyio

from wakeful.aio.periodic import every, pause
from wakeful.errors import StoreUnavailable
from wakeful.store.database import Database
from wakeful.store.gauges import Reading, find_gauge_reader, read_gauges
from wakeful.telemetry.metrics import Metrics

INTERVAL: Final = 15.0
UNREGISTERED_LOOK_SECONDS: Final = 0.5
CAP: Final = 5000
AGE: Final = "wakeful_database_gauges_age_seconds"
# Each gauge, and which labels it has. Others that the whole database is asked for, such as quotas, come in here.
GAUGES: Final = (
    ("queue_jobs", ("queue", "state")),
    ("queue_oldest_ready_seconds", ("queue",)),
    ("queue_paused", ("queue",)),
    ("queue_deaths", ("queue", "window")),
    ("job_type_info", ("job_type", "owner")),
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
    instance_id: Callable[[], int | None],
    interval: float = INTERVAL,
    turned: Callable[[], None] = lambda: None,
) -> None:
    """Keep the gauges true every `interval` seconds until `stop` is set, in the instance whose turn it is."""
    while instance_id() is None and not await pause(stop, UNREGISTERED_LOOK_SECONDS):
        turned()
    async for _ in every(interval, stop):
        turned()
        try:
            await take_turn(database, metrics, instance_id())
        except StoreUnavailable:
            await database.available(stop)


async def take_turn(database: Database, metrics: Metrics, instance_id: int | None) -> None:
    """Read and show, if this instance is the one that does, else show nothing. On an error what was shown stays."""
    if instance_id is None:
        return
    reader = await find_gauge_reader(database, instance_id)
    metrics.built(schema=reader.schema_version)
    if reader.instance_id == instance_id:
        show(metrics, await read_gauges(database, cap=CAP))
    else:
        hide(metrics)


def show(metrics: Metrics, readings: list[Reading]) -> None:
    """Put one reading of everything into the metrics; what is not in it disappears."""
    _replace(metrics, readings)
    metrics.age(AGE).reset()


def hide(metrics: Metrics) -> None:
    """Show none of these gauges: another instance does."""
    _replace(metrics, [])
    metrics.age(AGE).hide()


def _replace(metrics: Metrics, readings: list[Reading]) -> None:
    for name, labels in GAUGES:
        values = [(_labels(labels, one), one.value) for one in readings if one.gauge == name]
        metrics.gauge(f"wakeful_{name}").replace(values)


def _labels(names: tuple[str, ...], reading: Reading) -> dict[str, object]:
    return dict(zip(names, reading.labels, strict=False))
