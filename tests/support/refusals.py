"""Expects that a statement is refused, and looks at what a producer is told."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import asyncpg
import pytest

from support.databases import Connection


@contextmanager
def refused(sqlstate: str, message: str = "", *, hint: str = "") -> Iterator[None]:
    """Expect an error with this SQLSTATE whose message and hint contain these patterns.

    An error of Wakeful's own, class WK, must name Wakeful and have a hint.
    """
    with pytest.raises(asyncpg.PostgresError) as caught:
        yield
    error = caught.value
    assert isinstance(error, asyncpg.PostgresError)
    said = f"{error.sqlstate}: {error} / {error.hint}"
    assert error.sqlstate == sqlstate, said
    assert re.search(message, str(error)), said
    assert re.search(hint, error.hint or ""), said
    if sqlstate.startswith("WK"):
        assert str(error).startswith("wakeful: "), said
        assert error.hint, said


async def refuse_job(connection: Connection, job_id: UUID) -> None:
    """Let the database refuse this one job in ready from now on, as it would a row that breaks a constraint of it."""
    await connection.execute(
        f"alter table wakeful.ready add constraint refused check (job_id <> '{job_id}') not valid"
    )
