"""Where a soak takes place: the server, its database, and the fleet, as faults and looks reach them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from soak.fleet import Fleet
from soak.plan import Plan
from support.cluster import Cluster
from support.databases import Connection

DATABASE = "soak"
WORKER = "soak_worker"
PRODUCER = "soak_producer"
PATIENCE_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The server and who works on it."""

    plan: Plan
    cluster: Cluster
    fleet: Fleet
    ledger: Path

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Connection]:
        """A connection of the superuser's to the soak's database, not through a proxy."""
        connection = await asyncpg.connect(
            self.cluster.dsn(DATABASE), timeout=10, server_settings={"application_name": "soak"}
        )
        try:
            yield connection
        finally:
            connection.terminate()
