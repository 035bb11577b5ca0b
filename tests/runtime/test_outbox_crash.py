"""kill -9 of a dispatching process: a repeat with the same id and bytes at most, never a loss, never a wrong count."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from aiohttp import web

import support
from support.databases import ClonedDatabase, Connection
from support.dispatching import alert, counts_add_up, dispatching, heard, make_due, unsent, webhooks
from support.eventually import eventually
from support.receiver import Received, accept, running_receiver

_CHILD = Path(support.__file__).parent / "dispatcher_child.py"


async def test_killed_between_the_send_and_the_mark_it_is_sent_once_more(
    db: ClonedDatabase, sql: Connection
) -> None:
    children: list[subprocess.Popen[bytes]] = []

    async def kill_the_sender(received: Received, request: web.Request) -> web.StreamResponse:
        children[0].kill()
        return await accept(received, request)

    await alert(sql, "a", times=3)
    async with running_receiver(kill_the_sender) as receiver:
        with _child(db, receiver.url) as child:
            children.append(child)
            await eventually(_ended(child), timeout=20)
        assert await sql.fetchval("select state from wakeful.alert_delivery") == "pending"
        await make_due(sql)  # its lease ends
        with _child(db, receiver.url):
            await eventually(lambda: unsent(sql), until=lambda left: left == 0, timeout=20)

    first, second = receiver.received
    assert first.message_id == second.message_id
    assert first.body == second.body
    await counts_add_up(sql)


async def test_killed_again_and_again_while_things_happen_nothing_is_lost(
    db: ClonedDatabase, sql: Connection
) -> None:
    said = heard()
    producer = await db.connect()
    async with running_receiver() as receiver:
        for kill in range(5):
            before = len(receiver.received)
            with _child(db, receiver.url) as child:
                for n in range(40):
                    await alert(producer, f"key {kill} {n}")
                    await alert(producer, "the same for all")
                await eventually(_more_than(receiver.received, before), timeout=20)
                child.kill()
            await make_due(sql)
        async with dispatching(db, said, webhooks(said, hook=receiver.url), number=2):
            await eventually(lambda: unsent(sql), until=lambda left: left == 0, timeout=20)

    await counts_add_up(sql)
    assert await sql.fetchval("select sum(occurrences) from wakeful.alert") == 5 * 40 * 2
    times = Counter(request.message_id for request in receiver.received)
    assert len(times) == 5 * 40 + 1
    assert len({(request.message_id, request.body) for request in receiver.received}) == len(times)
    assert sum(times.values()) - len(times) <= 5 * 4  # what each was sending when it was killed


@contextmanager
def _child(db: ClonedDatabase, url: str) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen([sys.executable, str(_CHILD), db.dsn, url])
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def _ended(child: subprocess.Popen[bytes]) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return child.poll() is not None

    return look


def _more_than(received: list[Received], before: int) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return len(received) > before + 10

    return look
