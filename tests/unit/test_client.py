"""The Python client's own checks: what is wrong is said before the database is asked."""

from __future__ import annotations

import pytest

import wakeful


@pytest.mark.parametrize("connection", [None, object(), "postgresql://"])
async def test_what_is_no_connection_is_refused(connection: object) -> None:
    with pytest.raises(TypeError, match="is none of: asyncpg connection or pool"):
        await wakeful.enqueue(connection, "COLLECT")


@pytest.mark.parametrize(("job_type", "payload"), [("", {}), ("X", [1]), ("X", {"a": "\x00"})])
async def test_a_mistake_is_raised_before_the_database_is_asked(job_type: str, payload: object) -> None:
    with pytest.raises(ValueError, match=r"job type is empty|the payload can't be stored"):
        await wakeful.enqueue(object(), job_type, payload)
