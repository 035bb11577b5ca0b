"""`wakeful adopt`: after a restore, a major upgrade or a switchover, say that this copy is the one to work on."""

from __future__ import annotations

import argparse

from wakeful.cli import exits
from wakeful.cli.database import with_database
from wakeful.cli.options import Commands, add_command
from wakeful.cli.terminal import show, to_json
from wakeful.store import identity
from wakeful.store.database import Database


def register(commands: Commands) -> None:
    """Add the command."""
    add_command(
        commands,
        "adopt",
        run,
        summary="let daemons work on this server after a restore, an upgrade or a switchover",
        example="wakeful adopt",
    )


def run(arguments: argparse.Namespace) -> int:
    """Adopt, and print which server it is now."""

    async def adopt(database: Database) -> int:
        now = await identity.adopt(database)
        if arguments.json:
            show(to_json({"system_identifier": now.stored}))
        elif now.stored is None:
            show("adopted; this server does not tell its identifier, so none is compared from now on")
        else:
            show(f"adopted: this installation now belongs to server {now.stored}")
        return exits.OK

    return with_database(arguments, adopt)
