"""Serves the bundled sites on one loopback port; the host's first label says which place is meant.

Their addresses (`http://corner-bakery.test/`) are the same in every run, so that a job that waited over a restart
still finds its site: `.test` never resolves (RFC 6761), and `ONBOARDING_CONNECT_TO` tells the crawler where to
connect instead. A browser reaches them at `http://corner-bakery.localhost:PORT/`.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass

from aiohttp import web

from onboarding.site.documents import Document, documents
from onboarding.site.troubles import ANSWERS


@dataclass(frozen=True, slots=True, kw_only=True)
class BundledSite:
    """Where the sites are served; `closed_port` takes no connection as long as they are."""

    port: int
    closed_port: int

    @property
    def url(self) -> str:
        """The server's own address, with a list of the places."""
        return f"http://127.0.0.1:{self.port}/"

    @property
    def connect_to(self) -> Mapping[str, tuple[str, int]]:
        """What `CrawlSettings.connect_to` must hold for the crawler to find the places."""
        return {"*.test": ("127.0.0.1", self.port), "closed.test": ("127.0.0.1", self.closed_port)}

    def environment(self) -> dict[str, str]:
        """The variables that make the pipeline find the places; on loopback two seconds are plenty for an answer."""
        entries = (f"{host}={address}:{port}" for host, (address, port) in self.connect_to.items())
        return {"ONBOARDING_CONNECT_TO": ",".join(entries), "ONBOARDING_REQUEST_TIMEOUT": "2"}


@asynccontextmanager
async def serve() -> AsyncIterator[BundledSite]:
    """Serve the bundled sites until the block is left."""
    app = web.Application()
    app.router.add_get("/{path:.*}", _handler(documents()))
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
    # A socket that is bound and does not listen keeps its port and refuses every connection.
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as closed:
        closed.bind(("127.0.0.1", 0))
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield BundledSite(port=runner.addresses[0][1], closed_port=closed.getsockname()[1])
        finally:
            await runner.cleanup()


def _handler(
    catalogue: Mapping[tuple[str, str], Document],
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    places = sorted({place for place, _ in catalogue})

    async def answer(request: web.Request) -> web.StreamResponse:
        place = request.host.partition(".")[0]
        key = (place, request.path)
        if key in ANSWERS:
            return await ANSWERS[key](request)
        if key in catalogue:
            document = catalogue[key]
            return web.Response(body=document.read(), headers={"Content-Type": document.content_type})
        if place not in places:
            return _list_of_places(request, places)
        raise web.HTTPNotFound

    return answer


def _list_of_places(request: web.Request, places: list[str]) -> web.Response:
    port = request.url.port
    entries = "".join(f'<li><a href="http://{place}.localhost:{port}/">{place}</a></li>' for place in places)
    return web.Response(
        text=f"<!doctype html><title>Bundled places</title><ul>{entries}</ul>", content_type="text/html"
    )
