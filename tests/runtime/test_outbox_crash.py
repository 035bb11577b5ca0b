"""kill -9 of a dispatching process: a repeat with the same id and bytes at most, never a loss, never a wrong count."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from aiohttp import web

import support
from support.databases import ClonedDatabase, Connection
from support.dispatching import (
    alert,
    composed,
    counts_add_up,
    dispatching,
    heard,
    make_due,
    store_of,
    unsent,
    webhooks,
)
from support.eventually import eventually
from support.receiver import Received, accept, refuse, running_receiver
from wakeful.telemetry.events import OUTBOX_DELIVERED

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


@pytest.mark.case("F73")
@pytest.mark.parametrize(
    "table",
    ["alert", "alert_outbox", "alert_sink", "alert_notice", "alert_delivery"],
    ids=["folding", "marking_as_folded", "looking", "noting_what_is_told", "making_messages"],
)
async def test_killed_in_the_middle_of_a_step_nothing_is_lost_and_nothing_is_told_twice(
    db: ClonedDatabase, sql: Connection, table: str
) -> None:
    said = heard()
    await alert(sql, "a", times=3)
    await alert(sql, "b")
    lock = await db.connect()
    async with running_receiver() as receiver:
        transaction = lock.transaction()
        await transaction.start()
        await lock.execute(f"lock table wakeful.{table} in share mode")
        with _child(db, receiver.url) as child:
            await eventually(lambda: _waits(sql), timeout=30)
            child.kill()
            child.wait()
        await transaction.rollback()
        assert receiver.received == []
        async with dispatching(db, said, webhooks(said, hook=receiver.url)):
            await eventually(lambda: unsent(sql), until=lambda left: left == 0, timeout=30)

    told = [json.loads(request.body)["data"] for request in receiver.received]
    assert sorted((one["group"], one["occurrences"]) for one in told) == [("a", 3), ("b", 1)]
    await counts_add_up(sql)


@pytest.mark.case("F73")
@pytest.mark.parametrize("step", ["lease", "mark", "postpone"])
async def test_killed_in_a_lease_a_mark_or_a_postponement_it_is_sent_again_with_the_same_id_and_bytes(
    db: ClonedDatabase, sql: Connection, step: str
) -> None:
    said = heard()
    lock = await db.connect()
    transaction = lock.transaction()

    async def hold(received: Received, request: web.Request) -> web.StreamResponse:
        await transaction.start()
        await lock.execute("lock table wakeful.alert_delivery in share mode")
        return await (accept if step == "mark" else refuse(500))(received, request)

    await alert(sql, "a")
    async with store_of(db, said) as store:
        await composed(store, said, "hook")
    async with running_receiver(*([] if step == "lease" else [hold])) as receiver:
        if step == "lease":
            await transaction.start()
            await lock.execute("lock table wakeful.alert_delivery in share mode")
        with _child(db, receiver.url) as child:
            await eventually(lambda: _waits(sql), timeout=30)
            child.kill()
            child.wait()
        await transaction.rollback()
        await make_due(sql)
        async with dispatching(db, said, webhooks(said, hook=receiver.url)):
            await eventually(lambda: unsent(sql), until=lambda left: left == 0, timeout=30)

    assert len(receiver.received) == (1 if step == "lease" else 2)
    assert len({(request.message_id, request.body) for request in receiver.received}) == 1


async def _waits(sql: Connection) -> bool:
    found: bool = await sql.fetchval(
        "select exists (select from pg_locks l join pg_database d on d.oid = l.database"
        " where not l.granted and d.datname = current_database())"
    )
    return found


@pytest.mark.case("F73")
async def test_killed_after_the_lease_and_before_anybody_has_read_it_it_is_sent_when_the_lease_is_over(
    db: ClonedDatabase, sql: Connection
) -> None:
    said = heard()
    await alert(sql, "a")
    deaf = socket.create_server(("127.0.0.1", 0))  # it lets connect, and reads nothing
    with deaf, _child(db, f"http://127.0.0.1:{deaf.getsockname()[1]}/hook") as child:
        await eventually(_leased(sql), timeout=30)
        child.kill()
        child.wait()
    async with running_receiver() as receiver, dispatching(db, said, webhooks(said, hook=receiver.url)):
        await alert(sql, "b")
        await said.recorder.seen(OUTBOX_DELIVERED, alert_id=2)
        assert len(receiver.received) == 1  # the lease of the dead holds
        await make_due(sql)
        await eventually(lambda: unsent(sql), until=lambda left: left == 0, timeout=30)

    rows = await sql.fetch("select state, attempts, leased_by from wakeful.alert_delivery order by alert_id")
    assert [tuple(row) for row in rows] == [("delivered", 2, None), ("delivered", 1, None)]
    assert len(receiver.received) == 2


@pytest.mark.case("F73")
async def test_of_two_at_the_same_step_one_is_killed_and_the_other_tells_each_once(
    db: ClonedDatabase, sql: Connection
) -> None:
    await alert(sql, "a", times=3)
    await alert(sql, "b")
    lock = await db.connect()
    async with running_receiver() as receiver:
        transaction = lock.transaction()
        await transaction.start()
        await lock.execute("lock table wakeful.alert_delivery in share mode")
        with _child(db, receiver.url) as killed:
            await eventually(lambda: _waits(sql), timeout=30)
            with _child(db, receiver.url):
                await eventually(lambda: _sessions(sql), until=lambda number: number >= 2, timeout=30)
                killed.kill()
                killed.wait()
                await transaction.rollback()
                await eventually(lambda: unsent(sql), until=lambda left: left == 0, timeout=30)

    told = [json.loads(request.body)["data"] for request in receiver.received]
    assert sorted((one["group"], one["occurrences"]) for one in told) == [("a", 3), ("b", 1)]
    assert len({request.message_id for request in receiver.received}) == 2
    await counts_add_up(sql)


def _leased(sql: Connection) -> Callable[[], Awaitable[bool]]:
    return lambda: sql.fetchval(
        "select exists (select from wakeful.alert_delivery where leased_until > now() and attempts = 1)"
    )


async def _sessions(sql: Connection) -> int:
    """Dispatchers that are there: each looks at the outbox by itself."""
    found: int = await sql.fetchval(
        "select count(*) from pg_stat_activity"
        " where datname = current_database() and application_name = 'wakeful' and query like '%alert%'"
    )
    return found
