"""An HTTP receiver on loopback that plays a script: what it is sent it keeps, and it answers what the test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from multidict import CIMultiDict

PATH = "/services/T0SECRET0/B0SECRET0?sig=s3cr3t%2Fvalue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request, as it came."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def message_id(self) -> str:
        """The id that is the same at every try of one message."""
        return self.headers["webhook-id"]


Reply = Callable[[Received, web.Request], Awaitable[web.StreamResponse]]


async def accept(_received: Received, _request: web.Request) -> web.StreamResponse:
    """Take it."""
    return web.Response(status=204)


async def stall(_received: Received, _request: web.Request) -> web.StreamResponse:
    """Take the request in and never answer."""
    await asyncio.Event().wait()
    raise AssertionError("nobody sets this event")


async def hang_up(_received: Received, request: web.Request) -> web.StreamResponse:
    """Close the connection without an answer."""
    assert request.transport is not None
    request.transport.close()
    return web.Response()


def refuse(status: int, **headers: str) -> Reply:
    """Answer with a status of failure; `Retry_After="3"` becomes a header."""

    async def reply(_received: Received, request: web.Request) -> web.StreamResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=status, headers=named, text=f"Cannot POST {request.path_qs}")

    return reply


def answer(
    status: int, text: str = "", *, content_type: str = "text/plain", headers: Sequence[tuple[str, str]] = ()
) -> Reply:
    """Answer with a status, a body and headers, of which some may be there twice."""

    async def reply(_received: Received, _request: web.Request) -> web.StreamResponse:
        named = CIMultiDict([*headers, ("Content-Type", content_type)])
        return web.Response(status=status, headers=named, body=text.encode())

    return reply


async def reset(_received: Received, request: web.Request) -> web.StreamResponse:
    """Break the connection off, as a host does that has forgotten it."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def break_off(status: int, text: str, *, missing: int) -> Reply:
    """Answer with a body that ends before all that was promised has come."""

    async def reply(_received: Received, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        head = f"HTTP/1.1 {status} Reason\r\nContent-Type: text/plain\r\nContent-Length: {len(text) + missing}\r\n\r\n"
        request.transport.write(head.encode() + text.encode())
        request.transport.close()
        return web.Response()

    return reply


def endless(status: int) -> Reply:
    """Answer with a body that has no end."""

    async def reply(_received: Received, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=status)
        await response.prepare(request)
        while True:
            await response.write(b"ok" * 4096)

    return reply


@dataclass(slots=True, kw_only=True)
class Receiver:
    """A running receiver. `replies` are used one a request, then `otherwise` for ever."""

    url: str = ""
    received: list[Received] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    otherwise: Reply = accept

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Keep what came, and play the next reply."""
        received = Received(path=request.path_qs, headers=dict(request.headers), body=await request.read())
        self.received.append(received)
        reply = self.replies.pop(0) if self.replies else self.otherwise
        return await reply(received, request)


@asynccontextmanager
async def running_receiver(*replies: Reply, otherwise: Reply = accept) -> AsyncIterator[Receiver]:
    """Listen on a free port of loopback until the block ends; a request ends when its sender hangs up."""
    receiver = Receiver(replies=list(replies), otherwise=otherwise)
    application = web.Application()
    application.router.add_route("*", "/{tail:.*}", receiver.handle)
    runner = web.AppRunner(application, handle_signals=False, handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}{PATH}"
        yield receiver
    finally:
        await runner.cleanup()
