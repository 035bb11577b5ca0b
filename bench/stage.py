"""What every measurement stands on: one private server with durable settings, and in it a fresh database each.

Invariant: all measurements of one run share the server, one after another, so that their ratios are of one run; none
sees rows of another. The server and its folder are gone at the end.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import asyncpg

from wakeful.core.resources import schema_sql
from wakeful.embedded import Postmaster

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"  # subscriptable only in its stubs

# Durable as by default (fsync, synchronous_commit); no checkpoint falls into a measurement.
SERVER_SETTINGS = {
    "shared_buffers": "512MB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "1h",
    "max_connections": "200",
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.track": "all",
}
TEMPLATE = "bench_template"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The server of a run: how to reach its databases, its process and its programs."""

    socket_folder: Path
    pid: int
    folder: Path
    binaries: Path

    def dsn(self, database: str) -> str:
        """The DSN of a database of this server, for its superuser."""
        return f"postgresql://postgres@/{database}?host={self.socket_folder}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A fresh install in a database of its own."""

    cluster: Cluster
    database: str

    @property
    def dsn(self) -> str:
        """The DSN of the database."""
        return self.cluster.dsn(self.database)

    @property
    def folder(self) -> Path:
        """The folder of this run."""
        return self.cluster.folder

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Connection]:
        """A connection of the measuring program."""
        connection = await asyncpg.connect(self.dsn)
        try:
            yield connection
        finally:
            await connection.close()


@contextmanager
def running_cluster() -> Iterator[Cluster]:
    """Start a private server, and stop and remove it at the end."""
    with tempfile.TemporaryDirectory(prefix="wakeful-bench-") as name:
        folder = Path(name)
        with Postmaster(folder / "data", settings=SERVER_SETTINGS) as postmaster:
            server = postmaster.start()
            binaries = Path(f"/proc/{server.pid}/exe").resolve().parent
            yield Cluster(
                socket_folder=server.socket_folder, pid=server.pid, folder=folder, binaries=binaries
            )


async def make_template(cluster: Cluster) -> None:
    """Install the schema once, in the database that the fresh ones are copies of."""
    await _administer(cluster, f"create database {TEMPLATE}")
    connection = await asyncpg.connect(cluster.dsn(TEMPLATE))
    await connection.execute("create extension pg_stat_statements; create extension pg_walinspect")
    await connection.execute(f"begin;\n{schema_sql()}\nselect wakeful.grant_roles();\ncommit;")
    await connection.close()


@asynccontextmanager
async def fresh(cluster: Cluster, database: str, *, template: str = TEMPLATE) -> AsyncIterator[Stage]:
    """A database that nobody has used, dropped at the end; a checkpoint lies behind its creation."""
    await _administer(cluster, f"drop database if exists {database} with (force)")
    await _administer(cluster, f"create database {database} template {template}")
    await _administer(cluster, "checkpoint")
    try:
        yield Stage(cluster=cluster, database=database)
    finally:
        await _administer(cluster, f"drop database {database} with (force)")


@asynccontextmanager
async def held_snapshot(here: Stage) -> AsyncIterator[None]:
    """A transaction that has looked at the database and forgets nothing until the block ends."""
    async with here.connected() as connection, connection.transaction(isolation="repeatable_read"):
        await connection.fetch("select count(*) from pg_class")
        yield


async def _administer(cluster: Cluster, statement: str) -> None:
    connection = await asyncpg.connect(cluster.dsn("postgres"))
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
