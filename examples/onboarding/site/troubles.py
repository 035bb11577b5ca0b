"""The answers that no healthy site gives: too many requests, forbidden, none at all.

The rest of the Crooked Teapot's troubles (an unknown host, a closed port, a robots.txt that forbids, JSON-LD that is no
JSON) need no code: they are in its pages.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import anyio
from aiohttp import web

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def too_many_requests(request: web.Request) -> web.StreamResponse:
    return web.Response(status=429, headers={"Retry-After": "30"}, text="Slow down, please.")


async def forbidden(request: web.Request) -> web.StreamResponse:
    return web.Response(status=403, text="Not for you.")


async def silence(request: web.Request) -> web.StreamResponse:
    """Take the request and never answer: the handler is cancelled when the client gives up."""
    await anyio.sleep_forever()
    raise AssertionError("no one wakes a sleeper for ever")


async def moved(request: web.Request) -> web.StreamResponse:
    raise web.HTTPMovedPermanently("/workshop")


ANSWERS: Final[Mapping[tuple[str, str], Answer]] = {
    ("crooked-teapot", "/contact"): too_many_requests,
    ("crooked-teapot", "/site.webmanifest"): forbidden,
    ("crooked-teapot", "/menu.csv"): silence,
    ("spoke-and-chain", "/shop"): moved,
}
