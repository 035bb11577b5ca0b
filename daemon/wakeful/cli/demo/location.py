"""Where the demo works: its data folder, held for this process alone, and the database.

Invariant: everything that the demo leaves lies in the data folder or in the database that it was told; a server of its
own ends when the location is left, however that happens.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from wakeful.cli.demo.plan import Plan
from wakeful.cli.exits import CommandFailed
from wakeful.core.secrets import shown
from wakeful.embedded import find_binaries, running_server
from wakeful.embedded.folder import held_folder
from wakeful.errors import EmbeddedUnavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A held data folder and a database. `shown` is for people, `connect` the DSN without a password."""

    folder: Path
    dsn: str
    shown: str
    connect: str
    psql: str | None


@asynccontextmanager
async def opened_location(plan: Plan) -> AsyncIterator[Location]:
    """Hold the folder, with a server on it unless the plan names one. Raises CommandFailed with what helps."""
    try:
        if plan.dsn is None:
            async with running_server(plan.data) as server:
                yield Location(
                    folder=plan.data,
                    dsn=server.dsn,
                    shown=server.host_shown,
                    connect=server.dsn,
                    psql=_psql(find_binaries(major=int(server.version.partition(".")[0])).program("psql")),
                )
        else:
            with held_folder(plan.data):
                yield Location(
                    folder=plan.data,
                    dsn=plan.dsn,
                    shown=server_shown(plan.dsn, os.environ),
                    connect=shown(plan.dsn),
                    psql=_psql(),
                )
    except EmbeddedUnavailable as error:
        raise CommandFailed(str(error), hint="--data FOLDER names another data folder") from error


def server_shown(dsn: str, environ: Mapping[str, str]) -> str:
    """Give database and host of a DSN for people, as "shop on db.example:5432".

    What it leaves out is what the driver takes instead.
    """
    parts = urlsplit(dsn)
    query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    hosts = parts.netloc.rpartition("@")[2] or query.get("host") or environ.get("PGHOST") or "a local socket"
    user = unquote(parts.username or "") or query.get("user") or environ.get("PGUSER")
    database = unquote(parts.path.lstrip("/")) or query.get("dbname") or query.get("database")
    named = database or environ.get("PGDATABASE") or user or "the user's own"
    return f"{named} on {unquote(hosts)}"


def _psql(*others: str) -> str | None:
    """A client for SQL: the one on PATH, or one of these."""
    found = shutil.which("psql")
    return "psql" if found else next((path for path in others if os.access(path, os.X_OK)), None)
