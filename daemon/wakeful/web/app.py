"""The HTTP server of one process: what it serves, and how it ends.

Invariant: it serves until its scope is cancelled, so also all through a drain (F45), and then is gone within
`CLOSE_SECONDS`, whatever its clients do: idle connections are dropped, half-sent requests too, a running handler gets a
moment and is cancelled (F44). It never handles a signal. What the pages say is in the modules of their routes.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable
from typing import Final

import anyio
from aiohttp import web
from anyio.abc import TaskStatus

from wakeful.core.settings import HttpSettings
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import HTTP_MOVED, HTTP_STARTED, HTTP_STOPPED
from wakeful.telemetry.health import Health
from wakeful.telemetry.metrics import Metrics
from wakeful.web import health as probes
from wakeful.web.binding import bind, bind_near, port_of
from wakeful.web.keys import HEALTH, METRICS, STOP

HANDLER_SECONDS: Final = 0.8  # given to a handler to end, and once more to be cancelled
CLOSE_SECONDS: Final = 2.5
KEEP_ALIVE_SECONDS: Final = 30.0
LARGEST_BODY_BYTES: Final = 64 * 1024

_HEADERS: Final = (
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
)


def build_app(
    health: Health, metrics: Metrics, stop: anyio.Event, *, routes: Iterable[web.AbstractRouteDef] = ()
) -> web.Application:
    """Give the application: probes, metrics and `routes`. `stop` ends what streams."""
    app = web.Application(client_max_size=LARGEST_BODY_BYTES)
    app[HEALTH], app[METRICS], app[STOP] = health, metrics, stop
    app.add_routes([*probes.routes(), *routes])
    app.on_response_prepare.append(_add_headers)
    return app


async def serve_http(
    settings: HttpSettings,
    health: Health,
    metrics: Metrics,
    telemetry: Telemetry,
    stop: anyio.Event,
    *,
    routes: Iterable[web.AbstractRouteDef] = (),
    port_fallback: bool = False,
    task_status: TaskStatus[int] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled; `task_group.start` gives the port. Raises ConfigError where it can't listen.

    With `port_fallback` a taken port means the next free one. `stop` only ends streams: the server goes on.
    """
    sockets = await (bind_near(settings) if port_fallback else bind(settings))
    port = port_of(sockets)
    runner = web.AppRunner(
        build_app(health, metrics, stop, routes=routes),
        access_log=None,  # probes come every few seconds
        keepalive_timeout=KEEP_ALIVE_SECONDS,
        lingering_time=HANDLER_SECONDS,
        shutdown_timeout=HANDLER_SECONDS,
        auto_decompress=False,  # a stranger's small body could be a large one, or none that can be unpacked
    )
    try:
        await runner.setup()
        for opened in sockets:
            await web.SockSite(runner, opened).start()
        _announce(telemetry, settings, port)
        task_status.started(port)
        await anyio.sleep_forever()
    finally:
        await _close(runner, sockets, telemetry)


async def _close(runner: web.AppRunner, sockets: list[socket.socket], telemetry: Telemetry) -> None:
    began = time.monotonic()
    with anyio.move_on_after(CLOSE_SECONDS, shield=True):
        await runner.cleanup()
    for opened in sockets:
        opened.close()
    telemetry.emit(HTTP_STOPPED, seconds=round(time.monotonic() - began, 3))


def _announce(telemetry: Telemetry, settings: HttpSettings, port: int) -> None:
    if settings.port not in (0, port):
        telemetry.emit(HTTP_MOVED, wanted=settings.port, port=port)
    telemetry.emit(HTTP_STARTED, url=url_of(settings.host, port), host=settings.host, port=port)


def url_of(host: str, port: int) -> str:
    """Give the address to open in a browser on this machine; one that stands for all is shown as the loopback."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{shown}]:{port}/" if ":" in shown else f"http://{shown}:{port}/"


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    for name, value in _HEADERS:
        response.headers.setdefault(name, value)
    response.headers["Server"] = "wakeful"  # in place of aiohttp's, which names versions
