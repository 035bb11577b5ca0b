"""Installs the schema and brings an older one up to date; says whether an installed one fits this version of Wakeful.

Invariant: each step is one transaction that holds a lock of its own, looks at the version only then, and notes what it
did before it commits. So ten processes may migrate at once, through a pooler too, and one that is killed leaves no half
step. A daemon only checks; it migrates when it is told to. Which steps there are is `store.versions`'.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

import asyncpg

from wakeful.core.settings import DatabaseSettings
from wakeful.errors import SchemaMismatch, WakefulError
from wakeful.store.connect import Connection, open_connection
from wakeful.store.database import Database, Record
from wakeful.store.statements import statements
from wakeful.store.translation import FOREIGN, translated
from wakeful.store.versions import Installed, Migration, Versions, versions
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import MIGRATION_APPLIED

T = TypeVar("T")

OLDEST_SERVER: Final = 140000
STEP_SECONDS: Final = 610.0
LOCK_WAIT: Final = "10s"
_REFUSED: Final = "42501"


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """A step that was committed, and how long it took."""

    version: int
    name: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrated:
    """What `migrate` did. `for_administrator`: statements to run first, then migrate again, where roles are missing."""

    applied: tuple[Applied, ...]
    for_administrator: tuple[str, ...]


async def migrate(
    settings: DatabaseSettings,
    telemetry: Telemetry,
    *,
    subject_paths: Sequence[str] | None = None,
    known: Versions | None = None,
) -> Migrated:
    """Install the schema, or bring it up to date; does nothing where it is. `known`: other versions than ours.

    `subject_paths` become those of the installation (None: they stay as they are), since plain SQL enqueues with them.
    Raises SchemaMismatch with what helps, StoreUnavailable, and StoreBusy where a lock stood in the way.
    """
    take_next = partial(_take_next, known or versions())
    opened = await open_connection(settings, application="wakeful migrate")
    applied: list[Applied] = []
    try:
        while (step := await _in_transaction(opened.connection, take_next)) is not None:
            applied.append(step)
            telemetry.emit(MIGRATION_APPLIED, name=step.name, seconds=step.seconds)
        missing = await _in_transaction(opened.connection, _grant_where_missing)
        if subject_paths is not None:
            await _in_transaction(opened.connection, partial(_keep_subject_paths, subject_paths))
    finally:
        opened.connection.terminate()
    return Migrated(applied=tuple(applied), for_administrator=missing)


async def pending(settings: DatabaseSettings, *, known: Versions | None = None) -> tuple[Migration, ...]:
    """The steps that `migrate` would take. Raises SchemaMismatch where it would."""
    opened = await open_connection(settings, application="wakeful migrate")
    try:
        return await _in_transaction(opened.connection, partial(_pending, known or versions()))
    finally:
        opened.connection.terminate()


async def check_schema(database: Database, *, known: Versions | None = None) -> None:
    """Return where the installed schema fits.

    Raises SchemaMismatch with the command that helps, and StoreUnavailable.
    """
    there = await database.fetchrow("find_installation")
    assert there is not None, "a select without a from clause gives one row"
    if not there["has_installation"]:
        raise SchemaMismatch(
            f"Wakeful is not installed in the database {there['database']}; run `wakeful migrate`"
        )
    known = known or versions()
    installed = _installed(await database.fetch("read_installation"))
    known.refuse_newer(installed)
    known.refuse_older(installed)


async def _in_transaction(connection: Connection, work: Callable[[Connection], Awaitable[T]]) -> T:
    try:
        async with connection.transaction(isolation="read_committed"):
            await _run(connection, "begin_migration")
            await _run(connection, "lock_migrations")
            return await work(connection)
    except FOREIGN as error:
        raise _ours(error) from error


async def _take_next(known: Versions, connection: Connection) -> Applied | None:
    """Take the next step in the transaction that is open; None where the schema is up to date."""
    began = time.monotonic()
    steps = await _pending(known, connection)
    if not steps:
        return None
    step = steps[0]
    await _run(connection, "limit_lock_wait", LOCK_WAIT)
    await connection.execute(step.text, timeout=STEP_SECONDS)
    for note in known.notes_of(step):
        await _run(connection, "note_migration", *note)
    if step.is_install:
        await _run(connection, "bind_server")
    await _run(connection, "grant_roles")
    return Applied(version=step.version, name=step.name, seconds=round(time.monotonic() - began, 3))


async def _pending(known: Versions, connection: Connection) -> tuple[Migration, ...]:
    there = (await _run(connection, "find_installation"))[0]
    if there["server_version"] < OLDEST_SERVER:
        major = there["server_version"] // 10000
        raise SchemaMismatch(f"the server is PostgreSQL {major}; Wakeful needs 14 or newer")
    if not there["has_installation"]:
        _refuse_foreign(there)
        return (known.install(),)
    installed = _installed(await _run(connection, "read_installation"))
    known.refuse_newer(installed)
    for row in await _run(connection, "read_migrations"):
        known.refuse_changed(row["version"], row["checksum"])
    return known.after(installed)


async def _grant_where_missing(connection: Connection) -> tuple[str, ...]:
    """Grant the roles where they are not yet, such as after an administrator made them; gives what he has to run."""
    if (await _run(connection, "are_roles_granted"))[0]["granted"]:
        return ()
    return tuple((await _run(connection, "grant_roles"))[0]["missing"])


async def _keep_subject_paths(paths: Sequence[str], connection: Connection) -> None:
    """Looked at first: a role that may not write them migrates where there is nothing to do."""
    if not (await _run(connection, "has_subject_paths", list(paths)))[0]["has"]:
        await _run(connection, "keep_subject_paths", list(paths))


async def _run(connection: Connection, statement: str, *arguments: object) -> list[Record]:
    rows: list[Record] = await connection.fetch(statements()[statement], *arguments, timeout=STEP_SECONDS)
    return rows


def _installed(rows: list[Record]) -> Installed:
    if not rows:
        raise SchemaMismatch(
            "wakeful.installation is empty: the schema was damaged; restore it from a backup"
        )
    return Installed(version=rows[0]["schema_version"], breaking=rows[0]["breaking_version"])


def _refuse_foreign(there: Record) -> None:
    database, role = there["database"], there["role"]
    if there["has_schema"]:
        raise SchemaMismatch(
            f"the database {database} has a schema named wakeful that Wakeful did not make:"
            " rename it, or use another database"
        )
    if not there["may_create"]:
        raise SchemaMismatch(
            f"the role {role} may not create a schema in the database {database}: an administrator runs"
            f" `grant create on database {_quoted(database)} to {_quoted(role)}`, or the output of"
            " `wakeful migrate --sql`"
        )


def _ours(error: Exception) -> WakefulError:
    if isinstance(error, asyncpg.PostgresError) and error.sqlstate == _REFUSED:
        return SchemaMismatch(
            f"this role may not migrate ({error}): run `wakeful migrate` as the owner of the schema wakeful,"
            " or give an administrator the output of `wakeful migrate --sql`"
        )
    return translated(error, "migrate")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
