"""The daemon's own way to the database, which notes what goes it: each statement by its name, a transaction as one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from wakeful.core.settings import DatabaseSettings
from wakeful.store.database import Database, Record, Transaction
from wakeful.telemetry.bus import Telemetry


class Counted(Database):
    """`asked`: what went it."""

    asked: list[str]

    async def fetch(self, statement: str, *arguments: object, deadline: float | None = None) -> list[Record]:
        self.asked.append(statement)
        return await super().fetch(statement, *arguments, deadline=deadline)

    @asynccontextmanager
    async def transaction(
        self, *, deadline: float | None = None, lock_timeout: float | None = None
    ) -> AsyncIterator[Transaction]:
        self.asked.append("transaction")
        async with super().transaction(deadline=deadline, lock_timeout=lock_timeout) as transaction:
            yield transaction


@asynccontextmanager
async def counted(dsn: str, telemetry: Telemetry) -> AsyncIterator[Counted]:
    """Give one until the block ends."""
    database = Counted(DatabaseSettings(dsn=dsn), telemetry)
    database.asked = []
    try:
        yield database
    finally:
        await database.close()
