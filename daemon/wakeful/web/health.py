"""The probes and the metrics: answered from memory, at once, whatever the database does (F45, F88).

Invariant: no handler here awaits anything. `/livez` asks whether the loops turn, `/readyz` whether this instance claims
jobs; a process that drains is alive and not ready, and its metrics are served to the very end.
"""

from __future__ import annotations

from typing import Final

from aiohttp import web

from wakeful.telemetry.exposition import form_for
from wakeful.web.keys import HEALTH, METRICS

INDEX: Final = """Wakeful, a job daemon for PostgreSQL.

/livez     200 while the loops of this process turn (also as /healthz)
/readyz    200 while this instance claims jobs, else 503 with the reasons (?verbose: its loops)
/metrics   for Prometheus
"""


async def index(_request: web.Request) -> web.Response:
    """List what is here."""
    return web.Response(text=INDEX)


async def livez(request: web.Request) -> web.Response:
    """Tell whether the loops turn: 200, or 503 with those that do not."""
    health = request.app[HEALTH]
    live, stalled = health.live()
    body = {
        "live": live,
        "phase": health.phase,
        "stalled": dict(stalled),
        "lag_seconds": round(health.lag, 3),
    }
    return web.json_response(body, status=200 if live else 503)


async def readyz(request: web.Request) -> web.Response:
    """Tell whether this instance claims jobs: 200, or 503 with the reasons why not."""
    health = request.app[HEALTH]
    ready, reasons = health.ready()
    body: dict[str, object] = {"ready": ready, "phase": health.phase, "reasons": dict(reasons)}
    if failing := health.failing_sinks():
        body["failing_sinks"] = dict(failing)
    if "verbose" in request.query:
        body |= {"lag_seconds": round(health.lag, 3), "loops": health.loops()}
    return web.json_response(body, status=200 if ready else 503)


async def metrics(request: web.Request) -> web.Response:
    """Give all metrics, in Prometheus' text format or in OpenMetrics, as the client asks."""
    health, values = request.app[HEALTH], request.app[METRICS]
    values.gauge("wakeful_ready").set(1 if health.ready()[0] else 0)
    values.gauge("wakeful_phase").replace([({"phase": health.phase}, 1)])
    form = form_for(",".join(request.headers.getall("Accept", [])))
    headers = {"Content-Type": form.content_type, "Vary": "Accept"}
    return web.Response(body=values.render(form).encode(), headers=headers)


def routes() -> tuple[web.RouteDef, ...]:
    """Give the routes of this module."""
    return (
        web.get("/", index),
        web.get("/livez", livez),
        web.get("/healthz", livez),
        web.get("/readyz", readyz),
        web.get("/metrics", metrics),
    )
