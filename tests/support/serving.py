"""A running HTTP server for tests, and what a plain socket gets from it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
import anyio
from aiohttp import web

from wakeful.core.settings import HttpSettings
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.health import Health
from wakeful.telemetry.metrics import Metrics
from wakeful.telemetry.recorder import Recorder
from wakeful.web.app import serve_http


@dataclass(slots=True)
class Served:
    """The server's collaborators, its port, a client, and the scope that ends it."""

    port: int = 0
    health: Health = field(default_factory=Health)
    metrics: Metrics = field(default_factory=Metrics)
    telemetry: Telemetry = field(default_factory=lambda: Telemetry(strict=True))
    recorder: Recorder = field(default_factory=Recorder)
    stop: anyio.Event = field(default_factory=anyio.Event)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    client: aiohttp.ClientSession = field(init=False)

    async def get(self, path: str) -> tuple[int, str]:
        """Give the status and the text of a page."""
        async with self.client.get(f"http://127.0.0.1:{self.port}{path}") as response:
            return response.status, await response.text()


@asynccontextmanager
async def serving(
    settings: HttpSettings | None = None, routes: Iterable[web.AbstractRouteDef] = ()
) -> AsyncIterator[Served]:
    """Serve on a free port while the block runs, which may also end it by `scope.cancel()`."""
    served = Served()
    served.telemetry.subscribe(served.recorder)

    async def run(*, task_status: anyio.abc.TaskStatus[int]) -> None:
        with served.scope:
            await serve_http(
                settings or HttpSettings(port=0),
                served.health,
                served.metrics,
                served.telemetry,
                served.stop,
                routes=routes,
                task_status=task_status,
            )

    async with aiohttp.ClientSession() as client, anyio.create_task_group() as group:
        served.client = client
        served.port = await group.start(run)
        yield served
        served.scope.cancel()
