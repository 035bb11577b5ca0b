"""A server that says why it ends a session before the end itself arrives: the driver then refuses to go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from support.databases import ClonedDatabase, Connection
from support.dispatching import heard
from support.loops import running
from wakeful.core.settings import DatabaseSettings
from wakeful.store.listener import run_listener
from wakeful.telemetry.events import LISTENER_CONNECTED, LISTENER_LOST


@asynccontextmanager
async def endless(upstream: Path, database: str) -> AsyncIterator[str]:
    """Pass everything on but the end of the server's stream; gives a DSN."""

    async def serve(client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        server, requests = await asyncio.open_unix_connection(str(upstream))

        async def pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while chunk := await source.read(65536):
                sink.write(chunk)

        replies = asyncio.ensure_future(pass_on(server, answers))
        try:
            await pass_on(client, requests)
        finally:
            replies.cancel()
            requests.close()
            answers.transport.abort()

    relay = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = relay.sockets[0].getsockname()[1]
    try:
        yield f"postgresql://postgres@127.0.0.1:{port}/{database}?sslmode=disable"
    finally:
        relay.close()


async def test_a_listener_that_was_told_of_its_end_before_the_end_came_listens_again(
    db: ClonedDatabase, sql: Connection
) -> None:
    said = heard()

    async with endless(db.cluster.socket, db.name) as dsn:

        async def listen(stop: anyio.Event) -> None:
            await run_listener(
                DatabaseSettings(dsn=dsn),
                stop,
                telemetry=said.telemetry,
                on_notify=lambda lane: None,
                echo_interval=0.2,
                echo_timeout=1.0,
            )

        async with running(listen):
            await said.recorder.seen(LISTENER_CONNECTED)
            await sql.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'wakeful listener'"
                " and datname = current_database()"
            )
            await said.recorder.seen(LISTENER_LOST)
            with anyio.fail_after(20):
                while len(said.recorder.of(LISTENER_CONNECTED)) < 2:
                    await anyio.sleep(0.01)
