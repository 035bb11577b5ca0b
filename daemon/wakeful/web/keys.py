"""What the application carries for its handlers, by typed keys.

Invariant: set once, in `web.app`, before the first request.
"""

from __future__ import annotations

from typing import Final

import anyio
from aiohttp import web

from wakeful.telemetry.health import Health
from wakeful.telemetry.metrics import Metrics

HEALTH: Final = web.AppKey("health", Health)
METRICS: Final = web.AppKey("metrics", Metrics)
# Set when the process is asked to stop. A handler that streams watches it and ends then; the others go on to the end.
STOP: Final = web.AppKey("stop", anyio.Event)
