"""A receiver that writes what a test says, byte for byte, where a real server would not: over plain sockets or TLS."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from support.receiver import PATH

Play = Callable[[asyncio.StreamWriter], Awaitable[None]]
REQUESTS_AT_MOST = 1 << 20


@dataclass(slots=True)
class RawReceiver:
    """Where it listens, and how many requests have come whole."""

    url: str = ""
    port: int = 0
    requests: int = 0


@asynccontextmanager
async def raw_receiver(play: Play, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[RawReceiver]:
    """Read one request a connection, then let `play` write; it is cut off when its client is gone or the block ends."""
    receiver = RawReceiver()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, EOFError, asyncio.CancelledError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            await reader.readexactly(int(head.partition("content-length:")[2].partition("\r\n")[0] or "0"))
            receiver.requests += 1
            await play(writer)
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0, ssl=tls, limit=REQUESTS_AT_MOST)
    receiver.port = server.sockets[0].getsockname()[1]
    receiver.url = f"http{'s' if tls else ''}://127.0.0.1:{receiver.port}{PATH}"
    try:
        yield receiver
    finally:
        server.close()


def saying(text: bytes) -> Play:
    """Write this and hang up."""

    async def play(writer: asyncio.StreamWriter) -> None:
        writer.write(text)
        await writer.drain()

    return play


def trickling(head: bytes, one: bytes, *, seconds: float) -> Play:
    """Write `head`, then `one` again and again, so many seconds apart; 0 is as fast as it is taken."""

    async def play(writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while not writer.is_closing():
            writer.write(one)
            await writer.drain()
            await asyncio.sleep(seconds)

    return play
