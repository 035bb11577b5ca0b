"""The listener: hears notifications, proves itself, comes back from every loss, and says where LISTEN does nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import pytest

from support.databases import ClonedDatabase, Connection
from support.deaf_pooler import deaf_pooler
from support.dispatching import Heard, heard
from support.eventually import eventually
from support.loops import running
from support.proxy import Mode, Proxy
from wakeful.core.settings import DatabaseSettings
from wakeful.store.listener import lane_in, run_listener
from wakeful.telemetry.events import (
    LISTENER_CONNECTED,
    LISTENER_DEGRADED,
    LISTENER_LOST,
    NOTIFICATION_IGNORED,
    NOTIFICATION_RECEIVED,
)

LISTENER = "wakeful listener"


@dataclass(slots=True, kw_only=True)
class Calls:
    """What `on_notify` was called with, and what the listener said."""

    said: Heard = field(default_factory=heard)
    lanes: list[int | None] = field(default_factory=list)

    async def until(self, lane_id: int | None, *, times: int = 1) -> None:
        """Wait until it was called with this so often."""

        async def count() -> int:
            return self.lanes.count(lane_id)

        await eventually(count, until=lambda seen: seen >= times)

    async def until_said(self, event: object, *, times: int) -> None:
        """Wait until an event was said so often."""

        async def count() -> int:
            return len(self.said.recorder.of(event))  # type: ignore[arg-type]

        await eventually(count, until=lambda seen: seen >= times)


@asynccontextmanager
async def listening(
    dsn: str, calls: Calls, *, echo_interval: float = 10.0, echo_timeout: float = 5.0
) -> AsyncIterator[anyio.Event]:
    async def loop(stop: anyio.Event) -> None:
        await run_listener(
            DatabaseSettings(dsn=dsn),
            stop,
            telemetry=calls.said.telemetry,
            on_notify=calls.lanes.append,
            echo_interval=echo_interval,
            echo_timeout=echo_timeout,
        )

    async with running(loop) as stop:
        yield stop


async def backend_of_listener(observer: Connection) -> int | None:
    pid: int | None = await observer.fetchval(
        "select pid from pg_stat_activity where application_name = $1 and datname = current_database()",
        LISTENER,
    )
    return pid


async def test_a_notification_hands_on_its_lane(db: ClonedDatabase, sql: Connection) -> None:
    calls = Calls()
    async with listening(db.dsn, calls):
        await calls.said.recorder.seen(LISTENER_CONNECTED)
        await sql.execute("select pg_notify('wakeful', '-9223372036854775808'), pg_notify('wakeful', '')")
        await calls.until(-9223372036854775808)

        assert calls.said.recorder.of(NOTIFICATION_RECEIVED, lane_id=-9223372036854775808)


@pytest.mark.parametrize(
    "payload",
    ["garbage", "9223372036854775808", "1 2", "1.0", "\u0661\u0662", "\n1", "x" * 7900, "🔥", "-", "0x1"],
)
async def test_a_payload_that_makes_no_sense_wakes_and_hurts_nobody(
    db: ClonedDatabase, sql: Connection, payload: str
) -> None:
    calls = Calls()
    async with listening(db.dsn, calls):
        await calls.said.recorder.seen(LISTENER_CONNECTED)
        await sql.execute("select pg_notify('wakeful', $1)", payload)
        ignored = await calls.said.recorder.seen(NOTIFICATION_IGNORED)
        await calls.until(None, times=2)  # the first was the look after LISTEN
        await sql.execute("select pg_notify('wakeful', '7')")
        await calls.until(7)

    assert len(str(ignored["payload"]).encode()) <= 200
    assert not calls.said.recorder.of(LISTENER_LOST)


def test_only_whole_numbers_of_64_bits_are_lanes() -> None:
    assert lane_in("9223372036854775807") == 2**63 - 1
    assert lane_in("9223372036854775808") is None
    assert lane_in("") is None


async def test_everything_is_looked_at_once_listen_is_in_force(db: ClonedDatabase, sql: Connection) -> None:
    calls = Calls()
    async with listening(db.dsn, calls):
        await calls.until(None)
        # The look came after LISTEN: what commits from now on is heard.
        await sql.execute("select pg_notify('wakeful', '5')")
        await calls.until(5)


async def test_echoes_wake_nobody_else(db: ClonedDatabase) -> None:
    calls, other = Calls(), Calls()
    async with listening(db.dsn, calls), listening(db.dsn, other, echo_interval=0.01):
        await calls.said.recorder.seen(LISTENER_CONNECTED)
        await other.said.recorder.seen(LISTENER_CONNECTED)
        connection = await db.connect()
        await connection.execute("select pg_notify('wakeful', '3')")
        await calls.until(3)

    assert calls.lanes == [None, 3]
    assert not calls.said.recorder.of(NOTIFICATION_IGNORED)


@pytest.mark.case("F01")
async def test_a_killed_backend_is_noticed_at_once_and_all_is_looked_at_again(
    db: ClonedDatabase, sql: Connection
) -> None:
    calls = Calls()
    async with listening(db.dsn, calls):
        await calls.said.recorder.seen(LISTENER_CONNECTED)
        for round_number in range(1, 4):
            await sql.execute("select pg_terminate_backend($1)", await backend_of_listener(sql))
            await calls.until_said(LISTENER_CONNECTED, times=1 + round_number)
            await calls.until(None, times=1 + round_number)
            await sql.execute("select pg_notify('wakeful', $1)", str(round_number))
            await calls.until(round_number)

    assert len(calls.said.recorder.of(LISTENER_LOST)) == 3


@pytest.mark.case("F01")
async def test_a_half_open_connection_is_noticed_by_its_silence(db: ClonedDatabase, proxy: Proxy) -> None:
    calls = Calls()
    async with listening(proxy.dsn(db.name), calls, echo_interval=0.1, echo_timeout=0.3):
        await calls.said.recorder.seen(LISTENER_CONNECTED)
        (link,) = proxy.links()
        proxy.set(Mode.BLACKHOLE, link=link.number)  # both sockets stay open; nothing passes any more
        await calls.said.recorder.seen(LISTENER_LOST)
        await calls.until_said(LISTENER_CONNECTED, times=2)

    assert calls.lanes.count(None) == 2


async def test_it_tries_for_ever_and_says_so_once(db: ClonedDatabase, sql: Connection, proxy: Proxy) -> None:
    proxy.set(Mode.REFUSE)
    calls = Calls()
    async with listening(proxy.dsn(db.name), calls):
        await calls.said.recorder.seen(LISTENER_LOST)
        proxy.set(Mode.PASS)
        await calls.said.recorder.seen(LISTENER_CONNECTED)
        await sql.execute("select pg_notify('wakeful', '1')")
        await calls.until(1)

    assert len(calls.said.recorder.of(LISTENER_LOST)) == 1


@pytest.mark.case("F08")
async def test_behind_a_pooler_that_breaks_listen_it_says_so(db: ClonedDatabase) -> None:
    calls = Calls()
    async with (
        deaf_pooler(db.cluster.socket, db.name) as dsn,
        listening(dsn, calls, echo_timeout=0.2),
    ):
        said = await calls.said.recorder.seen(LISTENER_DEGRADED)

    assert "listen_dsn" in str(said["reason"])
    assert not calls.said.recorder.of(LISTENER_CONNECTED)


async def test_behind_a_pooler_that_does_not_break_listen_it_listens(
    db: ClonedDatabase, sql: Connection
) -> None:
    """One in session mode: only the key of the session is another one."""
    calls = Calls()
    async with (
        deaf_pooler(db.cluster.socket, db.name, deaf=False) as dsn,
        listening(dsn, calls, echo_timeout=2.0),
    ):
        await calls.said.recorder.seen(LISTENER_CONNECTED)
        await sql.execute("select pg_notify('wakeful', '5')")
        await calls.until(5)


async def test_a_listen_dsn_of_its_own_goes_round_the_pooler(db: ClonedDatabase) -> None:
    calls = Calls()
    async with deaf_pooler(db.cluster.socket, db.name) as dsn:
        settings = DatabaseSettings(dsn=dsn, listen_dsn=db.dsn)

        async def loop(stop: anyio.Event) -> None:
            await run_listener(settings, stop, telemetry=calls.said.telemetry, on_notify=calls.lanes.append)

        async with running(loop):
            await calls.said.recorder.seen(LISTENER_CONNECTED)


@pytest.mark.case("F01")
async def test_a_role_whose_idle_sessions_are_ended_listens_on(db: ClonedDatabase, sql: Connection) -> None:
    await sql.execute("create role listener_of_idle_test login")
    await sql.execute("alter role listener_of_idle_test set idle_session_timeout = '100ms'")
    try:
        calls = Calls()
        async with listening(db.dsn_as("listener_of_idle_test"), calls):
            await calls.said.recorder.seen(LISTENER_CONNECTED)
            canary = await db.connect(role="listener_of_idle_test")
            ended = anyio.Event()
            canary.add_termination_listener(lambda _connection: ended.set())
            with anyio.fail_after(30):
                await ended.wait()
            await sql.execute("select pg_notify('wakeful', '8')")
            await calls.until(8)

        assert not calls.said.recorder.of(LISTENER_LOST)
    finally:
        await sql.execute("drop role listener_of_idle_test")


@pytest.mark.parametrize("mode", [Mode.BLACKHOLE, Mode.REFUSE, Mode.PASS])
async def test_it_ends_at_once_whatever_it_waits_for(db: ClonedDatabase, proxy: Proxy, mode: Mode) -> None:
    async def linked() -> int:
        return len(proxy.links())

    proxy.set(mode)
    calls = Calls()
    async with listening(proxy.dsn(db.name), calls) as stop:
        if mode is Mode.BLACKHOLE:
            await eventually(linked)
        elif mode is Mode.REFUSE:
            await calls.said.recorder.seen(LISTENER_LOST)
        else:
            await calls.said.recorder.seen(LISTENER_CONNECTED)
        began = anyio.current_time()
        stop.set()
    assert anyio.current_time() - began < 2.0
