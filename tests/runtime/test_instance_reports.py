"""What an instance alone knows of itself: it reports it with its beat, and the rules of any instance tell it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from support.databases import ClonedDatabase, Connection
from support.dispatching import Heard, heard, pass_time, store_of
from support.eventually import eventually, looked
from support.owners import register
from support.proxy import Mode, Proxy
from support.ruling import MINUTE, evaluate, keys, titles
from wakeful.core.alert_settings import RuleSettings
from wakeful.core.settings import DatabaseSettings
from wakeful.runtime.attempts import Attempts
from wakeful.runtime.beat import Beating, Heart
from wakeful.runtime.holdings import Holdings
from wakeful.runtime.lease import Lease, Owner, suspended_clock
from wakeful.runtime.vitals import Vitals
from wakeful.runtime.watchdog import Watchdog
from wakeful.store.database import Database
from wakeful.store.instances import Report
from wakeful.store.listener import run_listener
from wakeful.telemetry.events import LISTENER_CONNECTED
from wakeful.telemetry.health import Health

AT_ONCE = {"listener_down": RuleSettings(over=0.1)}


@pytest.fixture
def said() -> Heard:
    return heard()


@pytest.fixture
async def store(db: ClonedDatabase, said: Heard) -> AsyncIterator[Database]:
    async with store_of(db, said) as store:
        yield store


@asynccontextmanager
async def living(db: ClonedDatabase, store: Database, said: Heard, vitals: Vitals) -> AsyncIterator[None]:
    """An instance w1 that beats and reports."""
    owner = await register(store)
    lease = Lease()
    lease.registered(Owner(owner.instance_id, owner.incarnation), sent=suspended_clock())
    heart = Heart(
        Beating(
            settings=DatabaseSettings(dsn=db.dsn),
            interval=0.05,
            lease=lease,
            holdings=Holdings(),
            telemetry=said.telemetry,
            post=lambda _pulse: None,
            vitals=vitals,
            free_workers=lambda: 7,
        )
    )
    over = said.telemetry.subscribe(vitals.on_event, vitals.wants)
    heart.start()
    try:
        yield
    finally:
        heart.stop()
        over()


async def reported(sql: Connection, column: str) -> object:
    """A column of the instance's row, once it has beaten after now."""
    beat = await sql.fetchval("select beat_seq from wakeful.instance")
    await eventually(
        lambda: sql.fetchval("select beat_seq from wakeful.instance"), until=lambda seq: seq >= beat + 2
    )
    return await sql.fetchval(f"select {column} from wakeful.instance")


@pytest.mark.parametrize("seen_after", [1.0, 100.0], ids=["seen by the thread", "seen by the loop alone"])
async def test_a_loop_that_a_handler_blocked_is_told_when_it_is_over(
    db: ClonedDatabase, store: Database, said: Heard, sql: Connection, seen_after: float
) -> None:
    vitals, over = Vitals(), anyio.Event()
    watchdog = Watchdog(
        attempts=Attempts(),
        lease=Lease(),
        telemetry=said.telemetry,
        health=Health(),
        vitals=vitals,
        blocked_after=seen_after,
    )
    async with living(db, store, said, vitals), anyio.create_task_group() as group:
        group.start_soon(watchdog.pulse, over)
        await anyio.lowlevel.checkpoint()
        time.sleep(2.5)  # noqa: ASYNC251 -- as a handler does
        await anyio.lowlevel.checkpoint()
        seconds = await reported(sql, "blocked_for")
        assert isinstance(seconds, float)
        assert seconds >= 1.0
        over.set()
    await evaluate(store)

    (title,) = await titles(sql)
    assert title.startswith("the event loop of instance w1 stood still for ")


async def test_a_listener_that_is_cut_off_is_told_until_it_listens_again(
    db: ClonedDatabase, store: Database, said: Heard, sql: Connection, proxy: Proxy
) -> None:
    vitals, stop = Vitals(), anyio.Event()

    async def listen() -> None:
        settings = DatabaseSettings(dsn=proxy.dsn(db.name))
        await run_listener(settings, stop, telemetry=said.telemetry, on_notify=lambda _lane: None)

    async with living(db, store, said, vitals), anyio.create_task_group() as group:
        group.start_soon(listen)
        await said.recorder.seen(LISTENER_CONNECTED)
        assert await reported(sql, "deaf_for") is None
        proxy.set(Mode.REFUSE)
        proxy.reset()

        async def told() -> list[str]:
            await evaluate(store, **AT_ONCE)
            return await keys(sql)

        assert await eventually(told, timeout=30.0) == ["listener_down:w1"]
        proxy.set(Mode.PASS)
        await eventually(
            looked(lambda: said.recorder.of(LISTENER_CONNECTED)),
            until=lambda seen: len(seen) == 2,
            timeout=30.0,
        )
        assert await reported(sql, "deaf_for") is None
        stop.set()
    await pass_time(sql, 2 * MINUTE)
    await evaluate(store, **AT_ONCE)
    assert await keys(sql) == []


async def test_free_workers_and_a_clock_that_is_right_are_reported(
    db: ClonedDatabase, store: Database, said: Heard, sql: Connection
) -> None:
    async with living(db, store, said, Vitals()):
        assert await reported(sql, "free_workers") == 7
        assert await reported(sql, "clock_ahead") is None


async def test_a_report_keeps_each_beat_a_hot_update(
    db: ClonedDatabase, said: Heard, sql: Connection
) -> None:
    async with store_of(db, said) as store:  # what a session did is counted at its end
        owner = await register(store)
        for n in range(100):
            report = Report(
                deaf_for=5.0 * n, blocked_for=n / 10, blocked_by="MAIL", clock_ahead=n / 7, free_workers=n
            )
            assert await owner.beat(report)

    async def counts() -> tuple[int, int]:
        row = await sql.fetchrow(
            """select n_tup_upd, n_tup_hot_upd from pg_stat_all_tables
               where relid = 'wakeful.instance'::regclass"""
        )
        assert row is not None
        return row["n_tup_upd"], row["n_tup_hot_upd"]

    updates, hot = await eventually(counts, until=lambda seen: seen[0] >= 100, timeout=30.0)
    assert hot == updates
