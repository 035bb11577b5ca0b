"""The Python client on every kind of connection: one call of the SQL function, in the caller's own transaction."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import asyncpg
import psycopg
import psycopg.rows
import pytest
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

import wakeful
from support.databases import ClonedDatabase, Connection
from wakeful import EnqueueOptions, InvalidPayload, OptionRefused, Registry

Connect = Callable[[ClonedDatabase], Any]

registry = Registry()


@dataclass(frozen=True)
class Collect:
    place_id: str
    max_pages: int = 20


@registry.job("COLLECT")
async def collect(job: wakeful.JobContext, payload: Collect) -> None: ...


@asynccontextmanager
async def plain_asyncpg(db: ClonedDatabase) -> AsyncIterator[Any]:
    connection = await db.connect()
    async with connection.transaction():
        yield connection


@asynccontextmanager
async def asyncpg_with_codecs(db: ClonedDatabase) -> AsyncIterator[Any]:
    connection = await db.connect()
    for kind in ("json", "jsonb"):
        await connection.set_type_codec(kind, encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
    async with connection.transaction():
        yield connection


@asynccontextmanager
async def asyncpg_pool(db: ClonedDatabase) -> AsyncIterator[Any]:
    async with asyncpg.create_pool(db.dsn, min_size=1, max_size=1) as pool:
        yield pool


@asynccontextmanager
async def psycopg_connection(db: ClonedDatabase) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(db.dsn, row_factory=psycopg.rows.dict_row) as connection:
        yield connection


@asynccontextmanager
async def sqlalchemy_connection(db: ClonedDatabase) -> AsyncIterator[Any]:
    engine = create_async_engine("postgresql+asyncpg://", async_creator=lambda: asyncpg.connect(db.dsn))
    try:
        async with engine.begin() as connection:
            yield connection
    finally:
        await engine.dispose()


@asynccontextmanager
async def sqlalchemy_session(db: ClonedDatabase) -> AsyncIterator[Any]:
    engine = create_async_engine(
        "postgresql+psycopg://", async_creator=lambda: psycopg.AsyncConnection.connect(db.dsn)
    )
    try:
        async with AsyncSession(engine) as session, session.begin():
            yield session
    finally:
        await engine.dispose()


CONNECTIONS = (
    plain_asyncpg,
    asyncpg_with_codecs,
    asyncpg_pool,
    psycopg_connection,
    sqlalchemy_connection,
    sqlalchemy_session,
)
each_connection = pytest.mark.parametrize("connect", CONNECTIONS, ids=lambda connect: connect.__name__)


@each_connection
async def test_a_job_is_enqueued_with_all_its_options(
    connect: Connect, db: ClonedDatabase, sql: Connection
) -> None:
    due = datetime.now(UTC) + timedelta(hours=1)
    async with connect(db) as connection:
        enqueued = await wakeful.enqueue(
            connection,
            "COLLECT",
            {"n": 9007199254740993, "price": Decimal("0.12345678901234567890123"), "text": "ü :x %s $1"},
            queue="crawl",
            priority="batch",
            subject="abc",
            dedupe_key="collect:abc",
            run_after=due,
            max_attempts=3,
            deadline="10m",
            tags=["a", "b c"],
            meta={"traceparent": "00-1"},
            group="g",
            limit_key="api",
        )
        again = await wakeful.enqueue(connection, "COLLECT", {}, dedupe_key="collect:abc")

    row = await sql.fetchrow(
        "select *, payload::text as text, meta::text as meta_text from wakeful.scheduled"
    )
    assert row is not None
    assert (enqueued.created, again.created, again.job_id) == (True, False, enqueued.job_id)
    assert (row["job_id"], row["job_type"], row["run_after"]) == (enqueued.job_id, "COLLECT", due)
    assert (row["queue"], row["priority"], row["subject"]) == ("crawl", "batch", "abc")
    assert (row["max_attempts"], row["deadline"], row["tags"]) == (3, timedelta(minutes=10), ["a", "b c"])
    assert (row["group_key"], row["limit_key"], row["meta_text"]) == ("g", "api", '{"traceparent": "00-1"}')
    assert row["text"] == (
        '{"n": 9007199254740993, "text": "ü :x %s $1", "price": 0.12345678901234567890123}'
    )


@each_connection
async def test_what_is_left_out_is_the_products_default(
    connect: Connect, db: ClonedDatabase, sql: Connection
) -> None:
    async with connect(db) as connection:
        await wakeful.enqueue(connection, "COLLECT")

    row = await sql.fetchrow("select *, payload::text as text from wakeful.ready")
    assert row is not None
    assert (row["queue"], row["priority"], row["max_attempts"], row["text"]) == ("default", "normal", 5, "{}")


@each_connection
async def test_what_the_database_refuses_comes_with_its_state_and_hint(
    connect: Connect, db: ClonedDatabase
) -> None:
    owner = await db.connect()
    await owner.execute("update wakeful.installation set payload_limit = 100")

    # The transaction is the caller's: it is aborted, and leaving it may say so.
    async with connect(db) as connection:
        with pytest.raises(OptionRefused, match="payload is 209 bytes of JSON; the limit is 100") as caught:
            await wakeful.enqueue(connection, "COLLECT", {"a": "x" * 200})
        await roll_back(connection)

    assert caught.value.sqlstate == "WK003"
    assert caught.value.hint == "Store the data elsewhere and put a reference into the payload."


async def roll_back(connection: Any) -> None:
    """Leave the aborted transaction, where the block round it would try to commit it."""
    undo: Callable[[], Awaitable[None]] | None = getattr(connection, "rollback", None)
    if undo is not None:
        await undo()


async def test_a_job_is_rolled_back_with_its_transaction(db: ClonedDatabase, sql: Connection) -> None:
    connection = await db.connect()
    transaction = connection.transaction()
    await transaction.start()
    await wakeful.enqueue(connection, "COLLECT")
    await transaction.rollback()

    assert await sql.fetchval("select count(*) from wakeful.jobs") == 0


async def test_a_registered_handler_enqueues_a_checked_payload(db: ClonedDatabase, sql: Connection) -> None:
    connection = await db.connect()

    await collect.enqueue(connection, place_id="one", options=EnqueueOptions(queue="crawl"))
    await collect.enqueue(connection, Collect("two", 5))
    with pytest.raises(InvalidPayload, match=r"\$\.plce_id: unknown field, did you mean 'place_id'\?"):
        await collect.enqueue(connection, place_id="three", plce_id="x")
    with pytest.raises(TypeError, match="not both"):
        await collect.enqueue(connection, Collect("four"), place_id="four")

    rows = await sql.fetch("select queue, subject, payload::text as text from wakeful.ready order by pos")
    assert [tuple(row) for row in rows] == [
        ("crawl", "one", '{"place_id": "one"}'),
        ("default", "two", '{"place_id": "two", "max_pages": 5}'),
    ]


@pytest.mark.parametrize("size", [1_048_500, 1_048_565, 1_048_570])
async def test_what_passes_the_clients_limit_passes_the_databases(db: ClonedDatabase, size: int) -> None:
    connection = await db.connect()
    payload = {"a": "x" * size, "b": 1}
    try:
        await wakeful.enqueue(connection, "COLLECT", payload)
    except ValueError as error:
        refused = str(error)
        assert "the payload is" in refused


async def test_other_errors_of_the_driver_stay_the_drivers(db: ClonedDatabase) -> None:
    connection = await db.connect()
    await connection.close()

    with pytest.raises(asyncpg.InterfaceError):
        await wakeful.enqueue(connection, "COLLECT")
