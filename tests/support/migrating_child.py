"""Migrates the database that its argument names, in a process of its own: to be killed in the middle."""

from __future__ import annotations

import sys

import anyio

from wakeful.core.settings import DatabaseSettings
from wakeful.store.migrate import migrate
from wakeful.telemetry.bus import Telemetry


async def main(dsn: str) -> None:
    await migrate(DatabaseSettings(dsn=dsn), Telemetry())


if __name__ == "__main__":
    anyio.run(main, sys.argv[1])
