"""Small web sites on loopback for the tests of crawlers: answers by path, and a list of what was asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
from aiohttp import web

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(slots=True)
class Website:
    """A served site; `asked` holds host and path of each request, in order."""

    port: int = 0
    asked: list[str] = field(default_factory=list)

    @property
    def connect_to(self) -> Mapping[str, tuple[str, int]]:
        """Makes every host below `.test` lead here."""
        return {"*.test": ("127.0.0.1", self.port)}


def page(text: str, content_type: str = "text/html", status: int = 200, **headers: str) -> Answer:
    """An answer with a text; keyword `Retry_After` becomes the header `Retry-After`."""

    async def answer(request: web.Request) -> web.StreamResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(
            body=text.encode(), status=status, headers={"Content-Type": content_type, **named}
        )

    return answer


def data(content: bytes, content_type: str) -> Answer:
    """An answer with bytes."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(body=content, headers={"Content-Type": content_type})

    return answer


def redirect(location: str, status: int = 302) -> Answer:
    """An answer that leads elsewhere."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, headers={"Location": location})

    return answer


async def silence(request: web.Request) -> web.StreamResponse:
    """Never answer; ends when the client gives up."""
    await anyio.sleep_forever()
    raise AssertionError("unreachable")


async def hang_up(request: web.Request) -> web.StreamResponse:
    """Begin an answer of a hundred bytes and close the connection after five."""
    response = web.StreamResponse(headers={"Content-Type": "text/html", "Content-Length": "100"})
    await response.prepare(request)
    await response.write(b"<html")
    assert request.transport is not None
    request.transport.abort()
    return response


@asynccontextmanager
async def website(answers: Mapping[str, Answer]) -> AsyncIterator[Website]:
    """Serve `answers`, by path or by `host/path`; anything else is a 404."""
    site = Website()

    async def answer(request: web.Request) -> web.StreamResponse:
        asked = f"{request.host.partition(':')[0]}{request.path}"
        site.asked.append(asked)
        found = answers.get(asked) or answers.get(request.path)
        if found is None:
            raise web.HTTPNotFound
        return await found(request)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        site.port = runner.addresses[0][1]
        yield site
    finally:
        await runner.cleanup()
