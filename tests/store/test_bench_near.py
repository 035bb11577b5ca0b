"""Whether a measurement takes the server for near: by the address that the server itself was reached at."""

from __future__ import annotations

import pytest

from support.databases import ClonedDatabase
from support.pooler import PROGRAM, WHERE_FROM, running_pooler
from support.proxy import Proxy
from support.working import telling
from wakeful.core.settings import DatabaseSettings
from wakeful.store.bench import is_near
from wakeful.store.database import open_database


async def found_near(dsn: str) -> bool:
    telemetry, _ = telling()
    async with open_database(DatabaseSettings(dsn=dsn), telemetry) as database:
        return await is_near(database)


async def test_a_server_behind_its_own_machines_socket_is_near(db: ClonedDatabase) -> None:
    assert await found_near(db.dsn)


@pytest.mark.skipif(PROGRAM is None, reason=WHERE_FROM)
async def test_a_server_behind_a_pooler_is_not_said_to_be_near(db: ClonedDatabase, proxy: Proxy) -> None:
    with running_pooler(proxy) as port:
        dsn = f"postgresql://postgres@127.0.0.1:{port}/{db.name}?sslmode=disable"
        assert not await found_near(dsn)
