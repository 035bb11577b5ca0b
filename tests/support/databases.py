"""One database a test: a clone of the template, with real commits and notifications, dropped when the test ends.

Every connection made here is closed here, also one whose transaction hangs, before the database is dropped.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import asyncpg

from support.cluster import OWNER, TEMPLATE, Cluster, execute
from support.proxy import Proxy

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Isolation = Literal["read_committed", "read_uncommitted", "repeatable_read", "serializable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClonedDatabase:
    """A fresh install of its own."""

    cluster: Cluster
    name: str
    _opened: list[Connection] = field(default_factory=list)

    @property
    def dsn(self) -> str:
        """DSN for the superuser, who owns the schema too."""
        return self.dsn_as(OWNER)

    def dsn_as(self, role: str) -> str:
        """DSN for another role that may log in."""
        return self.cluster.dsn(self.name, role=role)

    async def connect(
        self,
        *,
        role: str = OWNER,
        application: str = "test",
        through: Proxy | None = None,
        timeout: float = 10.0,
    ) -> Connection:
        """Open a connection that is closed when the test ends. jsonb comes and goes as text: exact."""
        connection = await asyncpg.connect(
            self.dsn_as(role) if through is None else through.dsn(self.name, role=role),
            server_settings={"application_name": application},
            timeout=timeout,
        )
        self._opened.append(connection)
        return connection

    async def close(self) -> None:
        """Close what was opened; a connection in the middle of something is cut."""
        for connection in self._opened:
            connection.terminate()
        self._opened.clear()


@asynccontextmanager
async def cloned_database(cluster: Cluster, *, template: str = TEMPLATE) -> AsyncIterator[ClonedDatabase]:
    """Clone the template, and drop the clone at the end."""
    database = ClonedDatabase(cluster=cluster, name=f"test_{secrets.token_hex(6)}")
    quickest = "strategy file_copy" if cluster.binaries.major >= 15 else ""
    await execute(cluster.dsn(), f"create database {database.name} template {template} {quickest}")
    try:
        yield database
    finally:
        await database.close()
        await execute(cluster.dsn(), f"drop database {database.name} with (force)")
