"""`wakeful alerts resend`: what was given up is sent once more, by the daemons; twice is not more than once."""

from __future__ import annotations

import argparse
from typing import Final

from wakeful.cli import exits
from wakeful.cli.database import with_database
from wakeful.cli.exits import CommandFailed
from wakeful.cli.options import Commands, add_command, count
from wakeful.cli.terminal import show, to_json, visible
from wakeful.store import alert_board
from wakeful.store.database import Database

_NOTHING: Final = (
    "nothing to send: nothing was given up, or it is on its way, or a later message has overtaken it"
)


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "resend",
        run,
        summary="send once more what was given up, about some alerts or to a sink",
        example="wakeful alerts resend 7",
    )
    parser.add_argument("alert_ids", metavar="ID", nargs="*", type=count)
    parser.add_argument(
        "--sink", metavar="SINK", help="only to this sink; without an ID all that it was not given"
    )


def run(arguments: argparse.Namespace) -> int:
    """Let each be sent; 0 also where there was nothing to send, so that it may be run again."""
    if not arguments.alert_ids and arguments.sink is None:
        raise CommandFailed("name what to send", hint="alerts by their ID, or --sink", code=exits.USAGE)

    async def resend(database: Database) -> int:
        for alert_id in arguments.alert_ids or [None]:
            messages = await alert_board.resend(database, alert_id=alert_id, sink=arguments.sink)
            if arguments.json:
                show(to_json({"alert_id": alert_id, "sink": arguments.sink, "messages": messages}))
            else:
                show(_told(alert_id, arguments.sink, messages))
        return exits.OK

    return with_database(arguments, resend)


def _told(alert_id: int | None, sink: str | None, messages: int) -> str:
    what = visible(str(sink)) if alert_id is None else f"alert {alert_id}"
    number = f"{messages} message{'' if messages == 1 else 's'}"
    return f"{what}: {number} will be sent" if messages else f"{what}: {_NOTHING}"
