"""A private PostgreSQL server for tests, of any major version, with a template database to clone.

The server's life is `wakeful.embedded`'s: it ends with this process, however it ends. Nothing here reads DATABASE_URL
or a PG* variable. Roles belong to a whole server, so a test about missing roles takes a server of its own.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import asyncpg

from wakeful.embedded import Binaries, Postmaster, Server, find_binaries

SCHEMA = Path(__file__).resolve().parents[2] / "schema.sql"
OWNER = "postgres"
TEMPLATE = "wakeful_template"
# As fast as a server can be whose data nobody will miss; two-phase commit on, for producers that use it.
SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "max_prepared_transactions": "10",
    "deadlock_timeout": "100ms",
    "shared_buffers": "64MB",
    "dynamic_shared_memory_type": "mmap",  # in the data folder: a killed server leaves nothing outside it
    "jit": "off",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A running server. `postmaster` stops, kills and restarts it; its socket, and so its DSNs, stay the same."""

    postmaster: Postmaster
    server: Server
    binaries: Binaries
    has_statistics: bool  # pg_stat_statements is loaded, and part of the template

    @property
    def socket(self) -> Path:
        """The server's unix socket: what a proxy connects to."""
        return self.server.socket_folder / ".s.PGSQL.5432"

    def dsn(self, database: str = "postgres", *, role: str = OWNER) -> str:
        """Give the DSN of a database, for the superuser or another role; no password is asked for."""
        folder = quote(str(self.server.socket_folder), safe="/")
        return f"postgresql://{quote(role, safe='')}@/{quote(database, safe='')}?host={folder}&port=5432"


@contextmanager
def running_cluster(folder: Path, *, binaries: Path | None = None) -> Iterator[Cluster]:
    """Run a server on an empty folder until the block ends. Raises EmbeddedUnavailable."""
    found = find_binaries(binaries)
    has_statistics = _library_folder(found).joinpath("pg_stat_statements.so").exists()
    preload = {"shared_preload_libraries": "pg_stat_statements"} if has_statistics else {}
    with Postmaster(folder, settings={**SETTINGS, **preload}, binaries=binaries) as postmaster:
        server = postmaster.start()
        yield Cluster(postmaster=postmaster, server=server, binaries=found, has_statistics=has_statistics)


async def make_template(cluster: Cluster) -> None:
    """Make the database that every test gets a copy of: a fresh install with its roles."""
    await execute(cluster.dsn(), f"create database {TEMPLATE}")
    if cluster.has_statistics:
        await execute(cluster.dsn(TEMPLATE), "create extension pg_stat_statements")
    await execute(
        cluster.dsn(TEMPLATE), f"begin;\n{SCHEMA.read_text()}\nselect wakeful.grant_roles();\ncommit;"
    )


async def execute(dsn: str, script: str) -> None:
    """Run statements on a connection of their own."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(script)
    finally:
        await connection.close()


def _library_folder(binaries: Binaries) -> Path:
    answer = subprocess.run(
        [binaries.program("pg_config"), "--pkglibdir"], capture_output=True, text=True, check=False
    )
    return Path(answer.stdout.strip() or "/nowhere")
