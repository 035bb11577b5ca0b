"""The way of a command to the database: one connection, opened for it and closed behind it.

A database that can't be reached is said at once: a command does not wait for one, the daemon does.
"""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable
from typing import Final

import anyio

from wakeful.cli.options import load_configuration
from wakeful.config import current_dsn
from wakeful.core.settings import DatabaseSettings
from wakeful.store.database import Database, open_database
from wakeful.telemetry.bus import Telemetry

APPLICATION: Final = "wakeful cli"  # what the audit shows for what is done by hand

Action = Callable[[Database], Awaitable[int]]


def with_database(arguments: argparse.Namespace, action: Action) -> int:
    """Run `action` with the configured database; gives its exit code. Raises ConfigError where there is none."""
    settings = load_configuration(arguments).settings.database
    current_dsn(settings)
    return anyio.run(_run, settings, action)


async def _run(settings: DatabaseSettings, action: Action) -> int:
    async with open_database(settings, Telemetry(), connections=1, application=APPLICATION) as database:
        return await action(database)
