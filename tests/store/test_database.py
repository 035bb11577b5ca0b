"""The way to the database: bounded, shielded, on connections that are never reused on hope."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import asyncpg
import pytest

from support.cluster import Cluster
from support.databases import ClonedDatabase, Connection
from support.eventually import eventually
from support.factories import enqueue
from support.proxy import Mode, Proxy
from support.working import claimer_on, telling
from wakeful.core.settings import DatabaseSettings
from wakeful.errors import SchemaMismatch, StoreBusy, StoreUnavailable
from wakeful.store.connect import open_connection
from wakeful.store.database import Database, open_database
from wakeful.telemetry.events import (
    DATABASE_LOST,
    DATABASE_RESTORED,
    SERVER_CHANGED,
    STATEMENT_RETRIED,
)
from wakeful.telemetry.recorder import Recorder

NAME = "under test"


@asynccontextmanager
async def opened(
    dsn: str, *, connections: int = 4, statement_timeout: float = 30.0, connect_timeout: float = 10.0
) -> AsyncIterator[tuple[Database, Recorder]]:
    telemetry, recorder = telling()
    settings = DatabaseSettings(
        dsn=dsn,
        connections=connections,
        statement_timeout=statement_timeout,
        connect_timeout=connect_timeout,
    )
    async with open_database(settings, telemetry, application=NAME) as database:
        yield database, recorder


async def sessions(sql: Connection) -> list[asyncpg.Record]:
    return await sql.fetch(
        "select pid, state, wait_event_type from pg_stat_activity where application_name = $1", NAME
    )


@asynccontextmanager
async def locked(sql: Connection, table: str = "installation") -> AsyncIterator[None]:
    async with sql.transaction():
        await sql.execute(f"lock table wakeful.{table} in access exclusive mode")
        yield


async def waiting(observer: Connection, count: int = 1) -> None:
    """Wait until so many sessions under test wait for a lock."""

    async def seen() -> int:
        return sum(row["wait_event_type"] == "Lock" for row in await sessions(observer))

    await eventually(seen, until=lambda number: number == count)


async def test_connections_are_made_when_they_are_needed_and_used_again(
    db: ClonedDatabase, sql: Connection
) -> None:
    async with opened(db.dsn) as (database, _):
        assert await sessions(sql) == []
        for _ in range(3):
            await database.fetch("read_identity")
        assert len(await sessions(sql)) == 1

    await eventually(lambda: sessions(sql), until=lambda seen: seen == [])


async def test_no_more_connections_are_made_than_it_may_have(db: ClonedDatabase, sql: Connection) -> None:
    observer = await db.connect()
    async with (
        opened(db.dsn, connections=2) as (database, _),
        anyio.create_task_group() as group,
        locked(sql),
    ):
        for _ in range(10):
            group.start_soon(database.fetch, "read_identity")
        await waiting(observer, 2)
        assert len(await sessions(observer)) == 2


async def test_a_call_that_is_cancelled_ends_first(db: ClonedDatabase, sql: Connection) -> None:
    observer, ended = await db.connect(), False
    async with opened(db.dsn) as (database, _), anyio.create_task_group() as group:

        async def call() -> None:
            nonlocal ended
            await database.fetch("read_identity")
            ended = True

        async with locked(sql):
            group.start_soon(call)
            await waiting(observer)
            group.cancel_scope.cancel()

    assert ended


@pytest.mark.case("F83")
async def test_a_call_that_takes_too_long_ends_and_so_does_its_connection(
    db: ClonedDatabase, sql: Connection
) -> None:
    observer = await db.connect()
    async with opened(db.dsn) as (database, _):
        async with locked(sql):
            began = anyio.current_time()
            with pytest.raises(StoreUnavailable):
                await database.fetch("read_identity", deadline=0.1)
            assert anyio.current_time() - began < 10
        await eventually(lambda: sessions(observer), until=lambda seen: seen == [])
        assert await database.fetch("read_identity")


async def test_the_server_ends_a_long_wait_by_itself_and_the_connection_stays(
    db: ClonedDatabase, sql: Connection
) -> None:
    async with opened(db.dsn, statement_timeout=0.3) as (database, recorder):
        await database.fetch("read_identity")
        (before,) = await sessions(await db.connect())
        async with locked(sql):
            with pytest.raises(StoreBusy, match="57014"):
                await database.fetch("read_identity")
        await database.fetch("read_identity")
        (after,) = await sessions(sql)

    assert before["pid"] == after["pid"]
    assert recorder.of(DATABASE_LOST) == []


@pytest.mark.case("F18")
async def test_a_lost_race_in_the_server_is_run_again(db: ClonedDatabase, sql: Connection) -> None:
    """A deadlock made on purpose: the daemon's statement is the one whose server process looks for it first."""
    await sql.execute(f"alter database {db.name} set deadlock_timeout = '500ms'")
    await sql.execute("set deadlock_timeout = '1min'")
    observer = await db.connect()
    for number in (1, 2):
        await sql.execute(
            """insert into wakeful.instance (instance_id, incarnation, name, host, pid, version, lease)
               values ($1, 1, 'w', 'here', 1, 'test', '30 s')""",
            number,
        )
    await sql.execute(
        """create function wakeful.touch_the_other() returns trigger language plpgsql as $$
           begin
               perform from wakeful.instance where instance_id = 2 for update;
               return new;
           end $$;
           create trigger touch before update on wakeful.instance
           for each row when (old.instance_id = 1) execute function wakeful.touch_the_other()"""
    )
    async with opened(db.dsn) as (database, recorder), anyio.create_task_group() as group:
        transaction = sql.transaction()
        await transaction.start()
        await sql.execute("select from wakeful.instance where instance_id = 2 for update")
        group.start_soon(database.fetch, "drain_instance", 1, 1, [])
        await waiting(observer)
        await sql.execute("select from wakeful.instance where instance_id = 1 for update")
        await transaction.rollback()
        await recorder.seen(STATEMENT_RETRIED, statement="drain_instance", sqlstate="40P01")

    assert await sql.fetchval("select state from wakeful.instance where instance_id = 1") == "draining"


@pytest.mark.case("F19")
async def test_another_default_isolation_level_changes_nothing(db: ClonedDatabase, sql: Connection) -> None:
    await sql.execute(f"alter database {db.name} set default_transaction_isolation = 'serializable'")
    opened = await open_connection(DatabaseSettings(dsn=db.dsn), application=NAME)
    try:
        assert await opened.connection.fetchval("show transaction_isolation") == "read committed"
    finally:
        await opened.connection.close()

    for _ in range(60):
        await enqueue(sql)
    async with claimer_on(db, connections=6) as claimer:
        (lane,) = await claimer.lanes()
        finished = 0

        async def work() -> None:
            nonlocal finished
            while claimed := await claimer.claim(limit=2, lane=lane.lane_id):
                count = len(await claimer.finish(*claimed))
                finished += count

        async with anyio.create_task_group() as group:
            for _ in range(6):
                group.start_soon(work)

    assert finished == 60
    assert claimer.recorder.of(STATEMENT_RETRIED) == []


async def test_a_connection_that_the_server_ended_is_not_used_again(
    db: ClonedDatabase, sql: Connection
) -> None:
    async with opened(db.dsn) as (database, recorder):
        await database.fetch("read_identity")
        (before,) = await sessions(sql)
        await sql.execute("select pg_terminate_backend($1, 5000)", before["pid"])
        await again(database)
        (after,) = await sessions(sql)

    assert before["pid"] != after["pid"]
    assert len(recorder.of(DATABASE_LOST)) == len(recorder.of(DATABASE_RESTORED)) <= 1


@pytest.mark.case("F82")
async def test_an_outage_is_one_state_told_once_with_one_prober_for_all_callers(
    db: ClonedDatabase, proxy: Proxy
) -> None:
    async with opened(proxy.dsn(db.name), connections=10) as (database, recorder):
        await database.fetch("read_identity")
        proxy.switch(("127.0.0.1", 1))  # connections are taken, and cut in the handshake
        proxy.reset()
        stop, calls = anyio.Event(), 0
        numbers = set[int]()

        async def loop() -> None:
            nonlocal calls
            while not stop.is_set():
                try:
                    await database.fetch("read_identity")
                except StoreUnavailable:
                    calls += 1
                    await database.available(stop)

        async def attempts() -> None:
            while not stop.is_set():
                numbers.update(link.number for link in proxy.links())
                await anyio.sleep(0.001)

        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(loop)
            group.start_soon(attempts)
            await recorder.seen(DATABASE_LOST)
            await anyio.sleep(3)
            proxy.switch(db.cluster.socket)
            await recorder.seen(DATABASE_RESTORED)
            stop.set()

    assert calls > 10
    assert max(numbers) - 1 - 10 <= 3 * 2 + 3  # not the first link, nor those of the ten callers afterwards
    assert len(recorder.of(DATABASE_LOST)) == 1


async def test_a_blackholed_server_holds_no_caller_longer_than_its_deadline(
    db: ClonedDatabase, proxy: Proxy
) -> None:
    async with opened(proxy.dsn(db.name), connect_timeout=0.3) as (database, _):
        await database.fetch("read_identity")
        proxy.set(Mode.BLACKHOLE)
        began = anyio.current_time()
        with pytest.raises(StoreUnavailable):
            await database.fetch("read_identity", deadline=0.1)
        with pytest.raises(StoreUnavailable):
            await database.fetch("read_identity", deadline=0.1)
        assert anyio.current_time() - began < 10

        proxy.set(Mode.PASS)
        await again(database)


@pytest.mark.case("F83")
async def test_calls_cancelled_at_any_moment_leave_no_transaction_and_no_session_behind(
    db: ClonedDatabase, sql: Connection, proxy: Proxy
) -> None:
    proxy.set(Mode.DELAY, seconds=0.002)
    async with opened(proxy.dsn(db.name), connections=3) as (database, recorder):

        async def write(number: int) -> None:
            with anyio.move_on_after(0.0005 * (number % 40)):
                async with database.transaction(lock_timeout=1.0) as transaction:
                    await transaction.fetch("take_duties", ["prune"], [0.001])

        async with anyio.create_task_group() as group:
            for number in range(200):
                group.start_soon(write, number)
        seen = await sessions(sql)
        assert len(seen) <= 3
        assert {row["state"] for row in seen} <= {"idle"}
        assert await database.fetch("read_identity")
        assert recorder.of(DATABASE_LOST) == []


async def test_an_error_in_a_transaction_rolls_all_of_it_back(db: ClonedDatabase, sql: Connection) -> None:
    async with opened(db.dsn) as (database, _):

        async def failing() -> None:
            async with database.transaction() as transaction:
                await transaction.fetch("keep_duties", ["new duty"])
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await failing()
        (session,) = await sessions(sql)
        assert session["state"] == "idle"

    assert not await sql.fetchval("select exists (select from wakeful.duty where name = 'new duty')")


async def test_a_transaction_waits_no_longer_for_a_lock_than_it_says(
    db: ClonedDatabase, sql: Connection
) -> None:
    async with opened(db.dsn) as (database, recorder), locked(sql):
        began = anyio.current_time()
        with pytest.raises(StoreBusy, match="55P03"):
            async with database.transaction(lock_timeout=0.2) as transaction:
                await transaction.fetch("read_identity")
        assert anyio.current_time() - began < 5
        assert recorder.of(DATABASE_LOST) == []


async def test_a_transaction_that_goes_on_too_long_is_given_up(db: ClonedDatabase, sql: Connection) -> None:
    observer = await db.connect()
    async with opened(db.dsn) as (database, _), locked(sql):
        with pytest.raises(StoreUnavailable):
            async with database.transaction(deadline=0.1) as transaction:
                await transaction.fetch("read_identity")
        await eventually(lambda: sessions(observer), until=lambda seen: seen == [])


async def test_what_is_under_way_when_all_is_closed_closes_its_own_connection(
    db: ClonedDatabase, sql: Connection
) -> None:
    observer = await db.connect()
    telemetry, _ = telling()
    database = Database(DatabaseSettings(dsn=db.dsn), telemetry, application=NAME)
    async with anyio.create_task_group() as group, locked(sql):
        group.start_soon(database.fetch, "read_identity")
        await waiting(observer)
        await database.close()
    await eventually(lambda: sessions(observer), until=lambda seen: seen == [])
    with pytest.raises(StoreUnavailable):
        await database.fetch("read_identity")


@pytest.mark.case("F86")
async def test_a_server_that_takes_no_writes_is_an_outage(db: ClonedDatabase, sql: Connection) -> None:
    await sql.execute(f"alter database {db.name} set default_transaction_read_only = on")
    async with opened(db.dsn) as (database, recorder):
        with pytest.raises(StoreUnavailable, match="read-only"):
            await database.fetch("read_identity")
        await sql.execute("set default_transaction_read_only = off")
        await sql.execute(f"alter database {db.name} reset default_transaction_read_only")
        await again(database)

    assert len(recorder.of(DATABASE_LOST)) == 1


async def test_a_missing_schema_is_not_an_outage_and_names_the_command(cluster: Cluster) -> None:
    async with opened(cluster.dsn("postgres")) as (database, recorder):
        with pytest.raises(SchemaMismatch, match="wakeful migrate"):
            await database.fetch("read_identity")

    assert recorder.of(DATABASE_LOST) == []


@pytest.mark.case("F82")
async def test_the_file_with_the_dsn_is_read_at_each_connect(
    db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    file = tmp_path / "dsn"
    file.write_text(db.dsn_as("nobody_of_this_name"))
    telemetry, _ = telling()
    settings = DatabaseSettings(dsn_file=str(file))
    async with open_database(settings, telemetry, application=NAME) as database:
        with pytest.raises(StoreUnavailable):
            await database.fetch("read_identity")
        file.write_text(db.dsn + "\n")
        await again(database)


async def test_another_life_of_the_server_is_noticed(own_cluster: Cluster) -> None:
    async with opened(own_cluster.dsn()) as (database, recorder):
        called = anyio.Event()
        database.on_server_changed(called.set)
        with pytest.raises(SchemaMismatch):
            await database.fetch("read_identity")
        await anyio.to_thread.run_sync(own_cluster.postmaster.restart)
        with pytest.raises(SchemaMismatch):
            await again(database)

        (changed,) = recorder.of(SERVER_CHANGED, what="postmaster")
        assert str(changed["now"]).startswith("started 20") and "datetime" not in str(changed["before"])
        assert called.is_set()


async def test_statements_work_as_a_transaction_pooler_needs_them(
    db: ClonedDatabase, sql: Connection
) -> None:
    """Without one at hand: nothing prepared by name, each call in a transaction of its own isolation."""
    await sql.execute(f"alter database {db.name} set default_transaction_isolation = 'serializable'")
    await enqueue(sql)
    telemetry, _ = telling()
    settings = DatabaseSettings(dsn=db.dsn, pooler="transaction")
    async with open_database(settings, telemetry, application=NAME) as database:
        for _ in range(3):
            assert len(await database.fetch("find_lanes", None, None, [], [], True)) == 1
        (session,) = await sessions(sql)
        assert session["state"] == "idle"
        assert database.pooled


async def again(database: Database) -> None:
    """Call until the outage is over, as loops do."""
    never = anyio.Event()
    with anyio.fail_after(20):
        while True:
            try:
                await database.fetch("read_identity")
            except StoreUnavailable:
                await database.available(never)
            else:
                return
