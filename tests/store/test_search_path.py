"""What others create in a schema that everybody may create in is never found by the daemon's statements."""

from __future__ import annotations

import asyncpg
import pytest

from support.databases import ClonedDatabase, Connection
from wakeful.core.settings import DatabaseSettings
from wakeful.store.connect import open_connection

LOOKALIKE = "create function public.length_of_life(text) returns integer language sql as 'select 0'"


async def test_a_lookalike_in_public_is_not_found(db: ClonedDatabase, sql: Connection) -> None:
    """Up to PostgreSQL 14 everybody may create in `public`, which is on everybody's search path."""
    await sql.execute(LOOKALIKE)
    opened = await open_connection(DatabaseSettings(dsn=db.dsn), application="under test")
    try:
        with pytest.raises(asyncpg.UndefinedFunctionError):
            await opened.connection.fetch("select length_of_life('x')")
        assert await opened.connection.fetchval("show search_path") == "pg_catalog, pg_temp"
    finally:
        await opened.connection.close()
