"""The proxy breaks connections the way it says, and puts them right again."""

from __future__ import annotations

import socket
import threading
from contextlib import nullcontext
from pathlib import Path

import anyio
import asyncpg
import pytest

from support.cluster import Cluster
from support.databases import ClonedDatabase
from support.eventually import eventually
from support.proxy import Keep, Link, Mode, Proxy, running_proxy


async def test_passes_a_database_session_through(db: ClonedDatabase, proxy: Proxy) -> None:
    through = await db.connect(through=proxy)

    assert await through.fetchval("select repeat('x', 300000)") == "x" * 300_000
    await through.close()
    await eventually(lambda: links(proxy), until=lambda seen: seen == ())


async def test_knows_each_client_by_its_name(db: ClonedDatabase, proxy: Proxy) -> None:
    await db.connect(through=proxy, application="listener")
    await db.connect(through=proxy, application="beat")

    assert [link.application_name for link in proxy.links()] == ["listener", "beat"]
    assert proxy.link("beat").number == 2


async def test_refuses_at_a_closed_port_and_lets_the_old_links_be(db: ClonedDatabase, proxy: Proxy) -> None:
    old = await db.connect(through=proxy)

    proxy.set(Mode.REFUSE)

    with pytest.raises(ConnectionRefusedError):
        await db.connect(through=proxy)
    assert await old.fetchval("select 1") == 1
    proxy.set(Mode.PASS)
    assert await (await db.connect(through=proxy)).fetchval("select 2") == 2


async def test_a_reset_cuts_one_link_at_once(db: ClonedDatabase, proxy: Proxy) -> None:
    cut, spared = await db.connect(through=proxy), await db.connect(through=proxy)

    proxy.reset(link=1)

    with pytest.raises((asyncpg.PostgresConnectionError, asyncpg.InterfaceError, OSError)):
        await cut.fetchval("select 1")
    assert await spared.fetchval("select 1") == 1
    assert [link.number for link in proxy.links()] == [2]


async def test_a_held_reply_means_that_the_server_has_done_it(db: ClonedDatabase, proxy: Proxy) -> None:
    through, beside = await db.connect(through=proxy), await db.connect()
    await beside.execute("create table done (what text)")

    proxy.set(Mode.HOLD_REPLIES)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(through.execute, "insert into done values ('it')")
            await eventually(lambda: beside.fetchval("select count(*) from done"))
            await eventually(lambda: links(proxy), until=lambda seen: seen[0].held > 0)
            proxy.set(Mode.PASS)

    assert await through.fetchval("select count(*) from done") == 1


async def test_a_held_reply_is_lost_in_a_reset(db: ClonedDatabase, proxy: Proxy) -> None:
    through, beside = await db.connect(through=proxy), await db.connect()
    await beside.execute("create table done (what text)")
    failures: list[Exception] = []

    async def insert() -> None:
        try:
            await through.execute("insert into done values ('it')")
        except (asyncpg.PostgresConnectionError, OSError) as error:
            failures.append(error)

    proxy.set(Mode.HOLD_REPLIES)
    async with anyio.create_task_group() as group:
        group.start_soon(insert)
        await eventually(lambda: links(proxy), until=lambda seen: seen[0].held > 0)
        proxy.reset()

    assert failures
    assert await beside.fetchval("select count(*) from done") == 1


async def test_a_blackhole_swallows_and_then_lets_go(db: ClonedDatabase, proxy: Proxy) -> None:
    through, beside = await db.connect(through=proxy), await db.connect()
    await beside.execute("create table done (what text)")

    proxy.set(Mode.BLACKHOLE)
    with pytest.raises(TimeoutError):
        await db.connect(through=proxy, timeout=0.2)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(through.execute, "insert into done values ('it')")
            await eventually(lambda: anyio.to_thread.run_sync(proxy.links))
            assert await beside.fetchval("select count(*) from done") == 0
            proxy.set(Mode.PASS)

    assert await beside.fetchval("select count(*) from done") == 1


async def test_a_delay_holds_each_chunk_for_its_time(db: ClonedDatabase, proxy: Proxy) -> None:
    through = await db.connect(through=proxy)
    proxy.set(Mode.DELAY, seconds=0.05)

    started = anyio.current_time()
    await through.fetchval("select 1")

    assert anyio.current_time() - started >= 0.1


def test_half_closed_a_client_reads_the_end_and_can_still_send(tmp_path: Path) -> None:
    received: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server, running_proxy(server.getsockname()) as proxy:
        reading = threading.Thread(target=lambda: received.append(_read_one(server)))
        reading.start()
        with socket.create_connection(("127.0.0.1", proxy.port)) as client:
            _until_linked(proxy)
            proxy.half_close()
            assert client.recv(1) == b""
            client.sendall(b"still here")
            reading.join(10)

    assert received == [b"still here"]


async def test_switches_to_another_server(db: ClonedDatabase, proxy: Proxy, cluster: Cluster) -> None:
    old = await db.connect(through=proxy)

    proxy.switch(("127.0.0.1", 1))

    assert await old.fetchval("select 1") == 1
    with pytest.raises((asyncpg.PostgresConnectionError, OSError)):
        await db.connect(through=proxy)
    proxy.switch(cluster.socket)
    assert await (await db.connect(through=proxy)).fetchval("select 1") == 1


async def links(proxy: Proxy) -> tuple[Link, ...]:
    return proxy.links()


def _read_one(server: socket.socket) -> bytes:
    taken, _ = server.accept()
    with taken:
        return taken.recv(100)


def _until_linked(proxy: Proxy) -> None:
    while not proxy.links():
        threading.Event().wait(0.01)


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("kept", Keep)
async def test_a_gate_stops_a_statement_before_its_commit_or_its_reply(
    db: ClonedDatabase, proxy: Proxy, kept: Keep, explicit: bool
) -> None:
    through, beside = await db.connect(through=proxy), await db.connect()
    await beside.execute("create table done (what text)")
    statement = await through.prepare("insert into done values ($1::text)")
    failures: list[Exception] = []

    async def insert() -> None:
        try:
            async with through.transaction() if explicit else nullcontext():
                await statement.fetch("it")
        except (asyncpg.PostgresConnectionError, asyncpg.InterfaceError, OSError) as error:
            failures.append(error)

    for cut in (False, True):
        proxy.gate("insert into done", kept)
        async with anyio.create_task_group() as group:
            group.start_soon(insert)
            await eventually(lambda: links(proxy), until=lambda seen: seen[0].gated is kept)
            if kept is Keep.REPLY:
                await eventually(lambda: links(proxy), until=lambda seen: seen[0].held > 0)
            proxy.reset() if cut else proxy.let_go()

    assert len(failures) == 1
    committed = 1 if kept is Keep.COMMIT or explicit else 2
    assert await beside.fetchval("select count(*) from done") == committed
