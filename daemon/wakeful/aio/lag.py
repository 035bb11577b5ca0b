"""Measures how late the event loop runs what is due: the first sign of a handler that blocks it.

Invariant: while the loop turns, so does this; that it does not is what `/livez` sees (loop "event_loop"). Naming the
handler that blocks takes a thread of its own, which is the lease keeper's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

import anyio
from anyio.abc import TaskStatus

from wakeful.telemetry.health import Health
from wakeful.telemetry.metrics import Metrics

INTERVAL_SECONDS: Final = 0.25
STUCK_SECONDS: Final = 10.0
REMEMBERED_SECONDS: Final = 15.0  # the gauge shows the worst of these: between two scrapes none is missed


async def watch_lag(
    health: Health,
    metrics: Metrics,
    *,
    quiet: Callable[[], Awaitable[None]] | None = None,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Measure until cancelled; `health` and the gauge get the worst of the last fifteen seconds.

    `quiet` is waited for between two measurements, a few seconds at most: while nothing could block the loop.
    """
    gauge = metrics.gauge("wakeful_event_loop_lag_seconds")
    latest: deque[tuple[float, float]] = deque()
    with health.loop("event_loop", bound=STUCK_SECONDS) as turned:
        task_status.started()
        while True:
            due = anyio.current_time() + INTERVAL_SECONDS
            await anyio.sleep_until(due)
            now = anyio.current_time()
            latest.append((now, max(0.0, now - due)))
            while latest[0][0] < now - REMEMBERED_SECONDS:
                latest.popleft()
            worst = max(late for _, late in latest)
            health.lagged(worst)
            gauge.set(worst)
            turned()
            if quiet is not None:
                await quiet()
