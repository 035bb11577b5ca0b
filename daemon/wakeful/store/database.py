"""This process's way to PostgreSQL: short statements with deadlines, on a few connections.

Invariant: a call is shielded from cancellation and has a deadline; a connection that anything went wrong on is
terminated, never reused on hope; no connection is shared by two calls at a time, and none is left in a transaction.
asyncpg's own pool resets sessions with a round trip and can hang on release after a cancelled call; this one is a list.
"""

from __future__ import annotations

import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final, TypeVar

import anyio
import asyncpg

from wakeful.core.settings import DatabaseSettings
from wakeful.errors import ConnectionLost, StoreBusy, StoreUnavailable
from wakeful.store.connect import CLOSE_SECONDS, Connection, Server, hide_password, open_connection
from wakeful.store.outage import Outage
from wakeful.store.statements import statements
from wakeful.store.translation import FOREIGN, translated
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import SERVER_CHANGED, STATEMENT_RETRIED

Record = asyncpg.Record
T = TypeVar("T")

BUSY_RETRIES: Final = 4
MARGIN_SECONDS: Final = 3.0
_RETRIED_STATES: Final = ("[40001]", "[40P01]", "[42804]")


class Transaction:
    """Statements of one transaction; made by `Database.transaction` only."""

    __slots__ = ("_connection", "_seconds")

    def __init__(self, connection: Connection, seconds: float) -> None:
        self._connection = connection
        self._seconds = seconds

    async def fetch(self, statement: str, *arguments: object) -> list[Record]:
        """Run a statement of `sql/` and give its rows."""
        return await _fetch(self._connection, statement, arguments, self._seconds)

    async def fetchrow(self, statement: str, *arguments: object) -> Record | None:
        """Run a statement of `sql/` and give its first row, or None."""
        rows = await self.fetch(statement, *arguments)
        return rows[0] if rows else None


class Database:
    """A handful of connections. Every method raises only `StoreError`s and `SchemaMismatch`."""

    def __init__(
        self,
        settings: DatabaseSettings,
        telemetry: Telemetry,
        *,
        outage: Outage | None = None,
        connections: int | None = None,
        application: str = "wakeful",
    ) -> None:
        self.settings = settings
        self.telemetry = telemetry
        self.outage = outage or Outage(telemetry)
        self.server: Server | None = None
        self.pooled, self.connects = False, 0
        self._application = application
        self._idle: list[Connection] = []
        self._slots = anyio.Semaphore(connections or settings.connections, fast_acquire=True)
        self._closed = False
        self._limit = math.inf
        self._scopes: set[anyio.CancelScope] = set()
        self._on_server_changed: list[Callable[[], None]] = []

    async def fetch(self, statement: str, *arguments: object, deadline: float | None = None) -> list[Record]:
        """Run a statement of `sql/` in a transaction of its own and give its rows; `deadline` is in seconds."""
        seconds = deadline or self.settings.statement_timeout

        async def call(connection: Connection) -> list[Record]:
            if not self.pooled:
                return await _fetch(connection, statement, arguments, seconds)
            async with connection.transaction(isolation="read_committed"):
                return await _fetch(connection, statement, arguments, seconds)

        return await self._retried(call, statement, seconds)

    async def fetchrow(
        self, statement: str, *arguments: object, deadline: float | None = None
    ) -> Record | None:
        """Like `fetch`, but gives the first row, or None."""
        rows = await self.fetch(statement, *arguments, deadline=deadline)
        return rows[0] if rows else None

    async def fetchval(self, statement: str, *arguments: object, deadline: float | None = None) -> object:
        """Like `fetch`, but gives the first column of the first row, or None."""
        row = await self.fetchrow(statement, *arguments, deadline=deadline)
        return None if row is None else row[0]

    async def script(self, text: str, *, deadline: float | None = None) -> None:
        """Run SQL text of several statements in one transaction: migrations only."""
        seconds = deadline or self.settings.statement_timeout

        async def call(connection: Connection) -> None:
            async with connection.transaction(isolation="read_committed"):
                await connection.execute(text, timeout=seconds)

        await self._once(call, "script", seconds)

    @asynccontextmanager
    async def transaction(
        self, *, deadline: float | None = None, lock_timeout: float | None = None
    ) -> AsyncIterator[Transaction]:
        """Several statements that are committed together, READ COMMITTED; an error rolls all of them back."""
        seconds = deadline or self.settings.statement_timeout
        with self._bounded(seconds) as scope:
            async with self._lent("transaction") as lent, lent.transaction(isolation="read_committed"):
                if lock_timeout is not None:
                    milliseconds = f"{int(lock_timeout * 1000)}ms"
                    await _fetch(lent, "limit_lock_wait", (milliseconds,), seconds)
                yield Transaction(lent, seconds)
        if scope.cancelled_caught:
            raise StoreUnavailable(f"transaction: no end within {seconds:g} s")

    async def available(self, stop: anyio.Event) -> None:
        """Wait until it makes sense to try again after a StoreUnavailable, or until `stop` is set."""
        if self.outage.away:
            await self.outage.wait(stop)
        else:
            with anyio.move_on_after(random.uniform(0.1, 0.3)):
                await stop.wait()

    def limit(self, seconds: float) -> None:
        """Let no call take longer than `seconds` from now on, not even one under way: the process is ending."""
        self._limit = seconds
        latest = anyio.current_time() + seconds
        for scope in self._scopes:
            scope.deadline = min(scope.deadline, latest)

    async def close(self) -> None:
        """Close every idle connection, within a bound; a call still under way ends its own."""
        self._closed = True
        self.limit(CLOSE_SECONDS)
        with anyio.move_on_after(CLOSE_SECONDS):
            for connection in self._idle:
                await _close(connection)
        self._drop_idle()

    @contextmanager
    def _bounded(self, seconds: float) -> Iterator[anyio.CancelScope]:
        allowed = min(seconds + MARGIN_SECONDS, self._limit)
        with anyio.CancelScope(shield=True, deadline=anyio.current_time() + allowed) as scope:
            self._scopes.add(scope)
            try:
                yield scope
            finally:
                self._scopes.discard(scope)

    async def _retried(self, call: Callable[[Connection], Awaitable[T]], statement: str, seconds: float) -> T:
        """Run a call again where the server says that it lost a race: nothing of it has happened."""
        for attempt in range(BUSY_RETRIES):
            try:
                return await self._once(call, statement, seconds)
            except StoreBusy as error:
                if attempt == BUSY_RETRIES - 1 or not str(error).endswith(_RETRIED_STATES):
                    raise
                self.telemetry.emit(STATEMENT_RETRIED, statement=statement, sqlstate=str(error)[-6:-1])
                await anyio.sleep(random.uniform(0.005, 0.03) * 2**attempt)
        raise AssertionError("the loop above returns or raises")

    async def _once(self, call: Callable[[Connection], Awaitable[T]], statement: str, seconds: float) -> T:
        with self._bounded(seconds):
            async with self._lent(statement) as connection:
                return await call(connection)
        raise StoreUnavailable(f"{statement}: no answer within {seconds:g} s")

    @asynccontextmanager
    async def _lent(self, statement: str) -> AsyncIterator[Connection]:
        async with self._slots:
            connection = await self._take()
            try:
                yield connection
            except BaseException as error:
                ours = _ours(error, statement)
                self._take_back(connection, ours, statement)
                if ours is error:
                    raise
                raise ours from error
            self.outage.succeeded(statement)
            if self._closed:
                await _close(connection)
            else:
                self._idle.append(connection)

    async def _take(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return await self._connect()

    async def _connect(self) -> Connection:
        if self._closed:
            raise StoreUnavailable("connect: this process is closing its connections")
        async with self.outage.turn:
            if self.outage.seconds_to_next_try > 0:
                raise StoreUnavailable("connect: the database is away; the next attempt is not due")
            hide_password(self.settings, self.telemetry.redactor)
            try:
                opened = await open_connection(
                    self.settings, application=self._application, pooled=self.pooled
                )
            except StoreUnavailable as error:
                self.outage.failed(error)
                raise
        self.pooled = opened.pooled
        self.connects += 1
        self._compare(opened.server)
        return opened.connection

    def _compare(self, server: Server) -> None:
        before, self.server = self.server, server
        if before is None or before == server:
            return
        what = "timeline" if before.timeline != server.timeline else "postmaster"
        self.telemetry.emit(SERVER_CHANGED, what=what, before=str(before), now=str(server))
        for changed in self._on_server_changed:
            changed()

    def on_server_changed(self, call: Callable[[], None]) -> None:
        """Call `call` when a connection finds another server, or another life of it, than the one before."""
        self._on_server_changed.append(call)

    def _take_back(self, connection: Connection, error: BaseException, statement: str) -> None:
        """Keep a connection only where the server itself answered with an error and the session is clean."""
        unclean = self._closed or connection.is_closed() or connection.is_in_transaction()
        if _is_answer(error) and not unclean:
            self._idle.append(connection)
            return
        connection.terminate()
        if isinstance(error, StoreUnavailable):
            # What broke this connection most likely broke its neighbours: the next call makes a new one.
            self._drop_idle()
            if not isinstance(error, ConnectionLost):
                self.outage.failed(error, refused=statement)

    def _drop_idle(self) -> None:
        while self._idle:
            self._idle.pop().terminate()


def _is_answer(error: BaseException) -> bool:
    return isinstance(error, Exception) and (
        isinstance(error, StoreBusy) or not isinstance(error, StoreUnavailable)
    )


def _ours(error: BaseException, statement: str) -> BaseException:
    return translated(error, statement) if isinstance(error, FOREIGN) else error


async def _fetch(
    connection: Connection, statement: str, arguments: tuple[object, ...], seconds: float
) -> list[Record]:
    # The server's own time-out comes first, so that an answer, not a broken connection, ends a long wait.
    rows: list[Record] = await connection.fetch(
        statements()[statement], *arguments, timeout=seconds + MARGIN_SECONDS / 2
    )
    return rows


async def _close(connection: Connection) -> None:
    try:
        await connection.close(timeout=CLOSE_SECONDS)
    except FOREIGN:
        connection.terminate()


@asynccontextmanager
async def open_database(
    settings: DatabaseSettings,
    telemetry: Telemetry,
    *,
    outage: Outage | None = None,
    connections: int | None = None,
    application: str = "wakeful",
) -> AsyncIterator[Database]:
    """Give a `Database`, and close its connections at the end. Nothing is connected before the first call."""
    database = Database(settings, telemetry, outage=outage, connections=connections, application=application)
    try:
        yield database
    finally:
        with anyio.CancelScope(shield=True):
            await database.close()
