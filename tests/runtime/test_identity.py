"""Whose database this is: asked before the first claim and after each change of the server (I4)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import pytest

from support.cluster import Cluster, execute, make_template
from support.databases import ClonedDatabase, Connection, cloned_database
from support.dispatching import Heard, heard, store_of
from support.eventually import eventually
from support.factories import enqueue
from support.loops import running
from support.proxy import Mode, Proxy
from wakeful.aio.wakeup import Wakeup
from wakeful.core.settings import DatabaseSettings
from wakeful.embedded.postmaster import StopMode
from wakeful.errors import StoreUnavailable
from wakeful.runtime.gate import Gate
from wakeful.runtime.identity import NOT_ASKED, REASON, Guard, check, run_identity
from wakeful.store import upkeep
from wakeful.store.database import Database, open_database
from wakeful.store.identity import adopt, raise_position, read_identity
from wakeful.telemetry.events import (
    POSITION_RAISED,
    SERVER_ACCEPTED,
    SERVER_CHANGED,
    SERVER_REFUSED,
    SERVER_UNIDENTIFIED,
)
from wakeful.telemetry.health import Health


@pytest.fixture
def said() -> Heard:
    return heard()


@pytest.fixture
async def database(db: ClonedDatabase, said: Heard) -> AsyncIterator[Database]:
    async with store_of(db, said) as opened:
        yield opened


@dataclass(slots=True)
class Watched:
    """A gate and a health, and how often the gate opened."""

    health: Health = field(default_factory=Health)
    opened: list[str] = field(default_factory=list)
    gate: Gate = field(init=False)

    def __post_init__(self) -> None:
        self.gate = Gate(on_opened=lambda: self.opened.append("opened"))

    async def until_open(self, *, times: int = 1) -> None:
        async def is_open() -> bool:
            return self.gate.open and len(self.opened) >= times

        await eventually(is_open)


@asynccontextmanager
async def guarded(database: Database, watched: Watched) -> AsyncIterator[None]:
    async def loop(stop: anyio.Event) -> None:
        await run_identity(database, stop, gate=watched.gate, health=watched.health, interval=0.05)

    async with running(loop):
        yield


async def bind_to(sql: Connection, system: str | None) -> None:
    """Let the installation belong to this server."""
    await sql.execute("update wakeful.installation set system_identifier = $1", system)


async def this_server(sql: Connection) -> str:
    system: str = await sql.fetchval("select system_identifier::text from pg_control_system()")
    return system


async def test_the_gate_is_shut_until_the_server_was_asked(
    sql: Connection, database: Database, said: Heard
) -> None:
    await bind_to(sql, await this_server(sql))
    watched = Watched()
    assert not watched.gate.open

    async with guarded(database, watched):
        await watched.until_open()
        await said.recorder.seen(SERVER_ACCEPTED, system=await this_server(sql))

    assert watched.opened == ["opened"]
    assert REASON not in watched.health.ready()[1]


async def test_a_process_is_not_ready_before_the_server_has_answered_however_silent_it_is(
    db: ClonedDatabase, said: Heard, proxy: Proxy
) -> None:
    watched = Watched()
    watched.health.enter("serve")
    async with store_of(db, said, proxy=proxy) as database:
        await read_identity(database)
        proxy.set(Mode.BLACKHOLE)
        async with guarded(database, watched):
            await anyio.wait_all_tasks_blocked()
            assert watched.health.ready() == (False, {REASON: NOT_ASKED})
            assert not watched.gate.open

            proxy.set(Mode.PASS)
            await watched.until_open()
            assert watched.health.ready() == (True, {})


@pytest.mark.case("I4")
async def test_on_another_server_nothing_runs_until_it_is_adopted(
    sql: Connection, database: Database, said: Heard
) -> None:
    await bind_to(sql, "7000000000000000000")
    watched = Watched()
    async with guarded(database, watched):
        refused = await said.recorder.seen(SERVER_REFUSED, stored="7000000000000000000")
        assert refused["here"] == await this_server(sql)
        assert not watched.gate.open
        assert "wakeful adopt" in watched.health.ready()[1][REASON]

        assert not (await adopt(database)).is_foreign
        await watched.until_open()

    assert REASON not in watched.health.ready()[1]
    assert len(said.recorder.of(SERVER_REFUSED)) == 1
    assert await sql.fetchval("select action from wakeful.audit") == "adopt"


@pytest.mark.parametrize("stored", [None, "7000000000000000000"])
async def test_a_server_that_does_not_tell_is_left_out_and_that_is_said_once(
    db: ClonedDatabase, sql: Connection, said: Heard, stored: str | None
) -> None:
    await sql.execute("revoke execute on function pg_control_system() from public")
    await sql.execute("create role worker_of_identity_test login in role wakeful_worker")
    try:
        await bind_to(sql, stored)
        watched = Watched()
        settings = DatabaseSettings(dsn=db.dsn_as("worker_of_identity_test"))
        async with open_database(settings, said.telemetry) as database:
            assert (await read_identity(database)).here is None
            guard = Guard(
                database=database,
                telemetry=said.telemetry,
                gate=watched.gate,
                health=watched.health,
                asked_again=Wakeup(),
            )
            for _ in range(3):
                await check(guard)
                assert watched.gate.open
        assert len(said.recorder.of(SERVER_UNIDENTIFIED)) == 1
    finally:
        await sql.execute("drop role worker_of_identity_test")


@pytest.mark.case("I4")
async def test_positions_are_above_all_in_use_before_the_gate_opens(
    sql: Connection, database: Database, said: Heard
) -> None:
    for queue in ("a", "b", "a"):
        await enqueue(sql, queue=queue)
    await sql.execute("update wakeful.ready set pos = pos + 5000 where queue = 'b'")
    highest = await sql.fetchval("select max(pos) from wakeful.ready")
    await sql.execute("select setval('wakeful.position', 1)")  # as after a crash or a failover
    watched = Watched()

    async with guarded(database, watched):
        await watched.until_open()

    (raised,) = said.recorder.of(POSITION_RAISED)
    # Well above: producers take positions while this is put right.
    assert isinstance(raised["position"], int)
    assert raised["position"] > highest + 10_000
    await enqueue(sql, queue="b")
    assert await sql.fetchval("select count(*) from wakeful.ready where pos > $1", highest) == 1
    assert await raise_position(database) is None


async def test_two_that_raise_it_at_once_never_set_it_back(
    db: ClonedDatabase, sql: Connection, database: Database
) -> None:
    await enqueue(sql)
    await sql.execute("update wakeful.ready set pos = 1000")
    await sql.execute("select setval('wakeful.position', 1)")
    first = await db.connect()
    answers: list[int | None] = []

    async def second() -> None:
        answers.append(await raise_position(database))

    async with anyio.create_task_group() as group:
        transaction = first.transaction()
        await transaction.start()
        raised = await first.fetchval("select wakeful.raise_position()")
        group.start_soon(second)
        await eventually(lambda: waiting_for_advice(sql))
        # A producer goes on meanwhile: what it was given must not be given again.
        taken = await sql.fetchval("select nextval('wakeful.position')")
        await transaction.commit()

    assert taken == raised + 1
    assert answers == [None]
    assert await sql.fetchval("select nextval('wakeful.position')") == taken + 1


async def waiting_for_advice(sql: Connection) -> bool:
    waits: bool = await sql.fetchval(
        "select exists (select from pg_locks where locktype = 'advisory' and not granted)"
    )
    return waits


async def test_after_a_change_of_the_server_the_gate_is_shut_until_it_was_asked_again(
    own_cluster: Cluster, said: Heard
) -> None:
    await make_template(own_cluster)
    async with cloned_database(own_cluster) as db:
        watched = Watched()
        open_when_it_changed: list[bool] = []
        async with store_of(db, said) as database, guarded(database, watched):
            await watched.until_open()
            database.on_server_changed(lambda: open_when_it_changed.append(watched.gate.open))
            own_cluster.postmaster.stop(StopMode.IMMEDIATE)
            own_cluster.postmaster.start()
            await execute(db.dsn, "select setval('wakeful.position', 1)")
            await eventually(lambda: answers(database))
            await said.recorder.seen(SERVER_CHANGED)
            await watched.until_open(times=2)

    assert open_when_it_changed == [False]


async def answers(database: Database) -> bool:
    """Whether the server is back; this is also what makes the database notice that it is another life of it."""
    try:
        await upkeep.look_at_instances(database)
    except StoreUnavailable:
        return False
    return True
