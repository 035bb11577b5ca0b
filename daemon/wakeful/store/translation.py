"""Foreign errors become Wakeful's, here and nowhere else.

Invariant: whatever asyncpg or the operating system raises while a statement runs leaves as a `StoreError`, so that
loops need to know three things only: the database is away (StoreUnavailable), a value was refused (DataRefused), an
option was refused (OptionRefused). Anything else is a bug of ours and ends the loop.
"""

from __future__ import annotations

from typing import Final

import asyncpg

from wakeful.errors import (
    ConnectionLost,
    DataRefused,
    OptionRefused,
    SchemaMismatch,
    StoreBusy,
    StoreError,
    StoreUnavailable,
)

# What a call of the driver may raise. InternalClientError is no bug: a server that ends a session says so first, and a
# statement between that message and the end of the stream is refused with it.
FOREIGN: Final = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)

MIGRATE_HINT: Final = "run `wakeful migrate`"

# Conflicts, locks and time-outs: nothing happened, and the same statement may go through in a moment. So may one that
# waited for a migration: it was planned for a row without the new column (42804).
_BUSY: Final = frozenset({"40001", "40P01", "55P03", "57014", "42804"})
# The session was ended; the server may well take another at once.
_ENDED: Final = frozenset({"57P01", "57P02", "57P05", "25P03"})
# Connections, resources, operator intervention, read-only, authentication, I/O: the outage of the process.
_AWAY_CLASSES: Final = frozenset({"53", "57", "58", "28", "3D", "XX"})
_AWAY: Final = frozenset({"25006", "42501", "0A000", "26000", "42P05", "55000"})
# Values, constraints, and values past a limit of the server's, such as JSON nested too deeply.
_DATA_CLASSES: Final = frozenset({"22", "23", "54"})
_MISSING: Final = frozenset({"42P01", "3F000", "42883", "42703", "42704"})


def translated(error: BaseException, statement: str) -> StoreError | SchemaMismatch:
    """Give the error of ours for one of asyncpg's or of the operating system's, to be raised from it."""
    if isinstance(error, asyncpg.PostgresError):
        return _of_server(error, statement)
    if isinstance(error, asyncpg.DataError):
        return DataRefused(f"{statement}: {error}")
    if isinstance(error, FOREIGN):
        reason = str(error) or type(error).__name__
        return ConnectionLost(f"{statement}: {reason}")
    return StoreError(f"{statement}: {type(error).__name__}: {error}")


def _of_server(error: asyncpg.PostgresError, statement: str) -> StoreError | SchemaMismatch:
    state = error.sqlstate or ""
    message = f"{statement}: {error} [{state}]"
    if state.startswith("WK"):
        return OptionRefused(state, error.args[0] if error.args else "", getattr(error, "hint", None))
    if state in _BUSY:
        return StoreBusy(message)
    if state in _ENDED or state.startswith("08"):
        return ConnectionLost(message)
    if state[:2] in _AWAY_CLASSES or state in _AWAY:
        return StoreUnavailable(message)
    if state[:2] in _DATA_CLASSES:
        return DataRefused(message)
    if state in _MISSING:
        return SchemaMismatch(f"the schema does not fit this version of Wakeful ({message}); {MIGRATE_HINT}")
    return StoreError(message)
