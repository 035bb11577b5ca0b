"""What every measurement stands on: a private server with durable settings, and one daemon as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from wakeful.core.resources import schema_sql
from wakeful.embedded import Postmaster

ROOT = Path(__file__).resolve().parents[1]
SERVER_SETTINGS = {
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
    "shared_preload_libraries": "pg_stat_statements",
}


@dataclass(frozen=True, slots=True)
class Stage:
    """A fresh install: its DSN and a folder for this run."""

    dsn: str
    folder: Path


@asynccontextmanager
async def stage() -> AsyncIterator[Stage]:
    """Start a server of its own (fsync and synchronous commit on), install the schema, remove it all at the end."""
    with tempfile.TemporaryDirectory(prefix="wakeful-bench-") as name:
        folder = Path(name)
        with Postmaster(folder / "data", settings=SERVER_SETTINGS) as postmaster:
            dsn = postmaster.start().dsn
            connection = await asyncpg.connect(dsn)
            await connection.execute("create extension if not exists pg_stat_statements")
            await connection.execute(f"begin;\n{schema_sql()}\nselect wakeful.grant_roles();\ncommit;")
            await connection.close()
            yield Stage(dsn, folder)


@contextmanager
def daemon(here: Stage, **settings: object) -> Iterator[subprocess.Popen[bytes]]:
    """Run `wakeful run` with its defaults, but for `settings` (worker__concurrency=100)."""
    given = {"handlers": "bench.handlers", "http__enabled": "false", "log__level": "warning", **settings}
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("WAKEFUL", "PG"))}
    environment |= {f"WAKEFUL__{key.upper()}": str(value) for key, value in given.items()}
    environment |= {
        "DATABASE_URL": here.dsn,
        "PYTHONPATH": str(ROOT),
        "BENCH_SOCKET": str(here.folder / "told"),
        "WAKEFUL_CONFIG": "",
    }
    process = subprocess.Popen([sys.executable, "-m", "wakeful", "run"], env=environment, cwd=here.folder)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(40)
