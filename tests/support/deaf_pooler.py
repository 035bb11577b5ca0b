"""A pooler in transaction mode as far as LISTEN can tell: an idle client hears nothing.

What pgbouncer 1.18 was seen to do, as bytes: the key that it gives a client names no backend of the server, and a
notification (a message of type 'A') is handed on only while the client has a statement under way, for then the server's
session is its own; so it does hear itself. Everything else passes.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import quote

_NOTIFICATION = b"A"
_READY = b"Z"
_BACKEND_KEY = b"K"
_FOREIGN_PID = 0x7FFF0001
_GONE = (ConnectionError, asyncio.IncompleteReadError)


@asynccontextmanager
async def deaf_pooler(
    upstream: Path, database: str, *, role: str = "postgres", deaf: bool = True
) -> AsyncIterator[str]:
    """Run it in front of a server's unix socket; gives the DSN of a database through it.

    Where it is not `deaf` it hands on everything, as in session mode.
    """
    clients: set[asyncio.StreamWriter] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        clients.add(writer)
        answers, requests = await asyncio.open_unix_connection(str(upstream))
        busy = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pass_requests(reader, requests, busy))
                group.create_task(_pass_replies(answers, writer, busy, deaf=deaf))
        finally:
            requests.close()
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"postgresql://{quote(role)}@127.0.0.1:{port}/{quote(database)}?sslmode=disable"
    finally:
        server.close()
        for writer in clients:
            writer.transport.abort()
        await server.wait_closed()


async def _pass_requests(
    client: asyncio.StreamReader, server: asyncio.StreamWriter, busy: asyncio.Event
) -> None:
    with suppress(*_GONE):
        while chunk := await client.read(65536):
            busy.set()
            server.write(chunk)
            await server.drain()
    server.close()


async def _pass_replies(
    server: asyncio.StreamReader, client: asyncio.StreamWriter, busy: asyncio.Event, *, deaf: bool
) -> None:
    with suppress(*_GONE):
        while True:
            kind, length = struct.unpack("!ci", await server.readexactly(5))
            body = await server.readexactly(length - 4)
            if kind == _BACKEND_KEY:
                body = struct.pack("!i", _FOREIGN_PID) + body[4:]
            if kind == _READY:
                busy.clear()
            if kind != _NOTIFICATION or busy.is_set() or not deaf:
                client.write(struct.pack("!ci", kind, length) + body)
                await client.drain()
    client.close()
