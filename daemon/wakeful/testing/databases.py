"""Databases for tests: whatever names one, and a private one of its own server."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from wakeful.core.settings import DatabaseSettings
from wakeful.embedded import running_server
from wakeful.store.database import Database, open_database
from wakeful.store.migrate import migrate
from wakeful.telemetry.bus import Telemetry


@runtime_checkable
class HasDsn(Protocol):
    """Anything that knows the DSN of a database with Wakeful's schema."""

    @property
    def dsn(self) -> str:
        """The DSN, as libpq takes it."""
        ...


WhichDatabase = Database | HasDsn | str


@dataclass(frozen=True, slots=True)
class PrivateDatabase:
    """A database on a private server, which nobody else works on."""

    dsn: str

    async def clear(self) -> None:
        """Forget all jobs, alerts and paused queues: one test's are not the next one's. Instances and types stay."""
        async with opened(self) as database:
            await database.fetch("forget_everything")


@asynccontextmanager
async def database() -> AsyncIterator[PrivateDatabase]:
    """Run a private PostgreSQL with Wakeful's schema until the block ends, and leave nothing of it.

    It takes seconds to start: make one for many tests, and `clear` it between them. Raises EmbeddedUnavailable, which
    says what to install.
    """
    quick = {"fsync": "off", "full_page_writes": "off"}
    with tempfile.TemporaryDirectory(prefix="wakeful-test-") as folder:
        async with running_server(Path(folder) / "data", settings=quick) as server:
            await migrate(DatabaseSettings(dsn=server.dsn), Telemetry())
            yield PrivateDatabase(server.dsn)


@asynccontextmanager
async def opened(db: WhichDatabase, telemetry: Telemetry | None = None) -> AsyncIterator[Database]:
    """Give a `Database` for whatever names one."""
    if isinstance(db, Database):
        yield db
        return
    dsn = db if isinstance(db, str) else db.dsn
    async with open_database(DatabaseSettings(dsn=dsn), telemetry or Telemetry()) as database:
        yield database
