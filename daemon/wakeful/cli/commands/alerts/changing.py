"""`wakeful alerts ack` and `resolve`: one by one, each with a line; one that can't be changed stops no other."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable

from wakeful.cli import exits
from wakeful.cli.database import with_database
from wakeful.cli.options import Commands, add_command, count
from wakeful.cli.terminal import show, to_json
from wakeful.store import alert_board
from wakeful.store.database import Database


def register(commands: Commands) -> None:
    """Add the commands."""
    taking = add_command(
        commands,
        "ack",
        run_ack,
        summary="take alerts on: nobody is reminded of them, or called; their end is told",
        example="wakeful alerts ack 7 8",
    )
    ending = add_command(
        commands,
        "resolve",
        run_resolve,
        summary="end alerts; what happens after that is told anew",
        example='wakeful alerts resolve 7 --reason "the disk was full"',
    )
    ending.add_argument("--reason", metavar="TEXT", help="told, and kept in the audit")
    for parser in (taking, ending):
        parser.add_argument("alert_ids", metavar="ID", nargs="+", type=count)


def run_ack(arguments: argparse.Namespace) -> int:
    """Acknowledge each."""
    return _change(arguments, alert_board.acknowledge, done="acknowledged", otherwise="not open")


def run_resolve(arguments: argparse.Namespace) -> int:
    """Resolve each."""

    async def resolve(database: Database, alert_id: int) -> bool:
        return await alert_board.resolve(database, alert_id, arguments.reason)

    return _change(arguments, resolve, done="resolved", otherwise="not there, or resolved before")


def _change(
    arguments: argparse.Namespace,
    change: Callable[[Database, int], Awaitable[bool]],
    *,
    done: str,
    otherwise: str,
) -> int:
    async def run(database: Database) -> int:
        failed = 0
        for alert_id in arguments.alert_ids:
            changed = await change(database, alert_id)
            failed += not changed
            if arguments.json:
                show(to_json({"alert_id": alert_id, "changed": changed}))
            else:
                show(f"alert {alert_id}: {done if changed else otherwise}")
        return exits.FAILED if failed else exits.OK

    return with_database(arguments, run)
