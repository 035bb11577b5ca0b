"""`wakeful alerts list`: what is open, the latest first, and what is muted."""

from __future__ import annotations

import argparse
import shutil
import sys
from typing import Final

from wakeful.cli import exits
from wakeful.cli.commands.jobs.documents import document
from wakeful.cli.database import with_database
from wakeful.cli.options import Commands, add_command, page_size
from wakeful.cli.terminal import age, moment, say, show, table, to_json, visible
from wakeful.store import alert_board
from wakeful.store.alert_board import AlertRow
from wakeful.store.database import Database

STATES: Final = ("open", "acknowledged", "resolved")
_UNRESOLVED: Final = ("open", "acknowledged")
_HEADINGS: Final = ("ID", "STATE", "SEVERITY", "COUNT", "LAST", "KIND", "TITLE")


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "list",
        run,
        summary="list alerts that are not resolved, the latest first, and what is muted",
        example="wakeful alerts list --kind job_dead",
    )
    parser.add_argument(
        "--state", dest="states", action="append", choices=STATES, help="may be repeated; default: unresolved"
    )
    parser.add_argument("--kind", dest="kinds", action="append", metavar="KIND", help="may be repeated")
    parser.add_argument("--type", dest="job_types", action="append", metavar="TYPE", help="may be repeated")
    parser.add_argument("--limit", type=page_size, default=50, metavar="N", help="at most so many (50)")


def run(arguments: argparse.Namespace) -> int:
    """Print them."""

    async def print_alerts(database: Database) -> int:
        rows = await alert_board.list_alerts(
            database,
            states=arguments.states or _UNRESOLVED,
            kinds=arguments.kinds,
            job_types=arguments.job_types,
            limit=arguments.limit,
        )
        mutes = await alert_board.list_mutes(database)
        if arguments.json:
            show(
                to_json(
                    {"alerts": [document(row) for row in rows], "mutes": [document(row) for row in mutes]}
                )
            )
            return exits.OK
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        show("\n".join(table(_HEADINGS, [_row(row) for row in rows], width=width)))
        for mute in mutes:
            say(_muted(mute))
        return exits.OK

    return with_database(arguments, print_alerts)


def _row(row: AlertRow) -> tuple[str, ...]:
    return (
        str(row["alert_id"]),
        row["state"],
        row["severity"],
        str(row["occurrences"]),
        age(row["quiet_s"]),
        row["kind"],
        row["title"],
    )


def _muted(mute: AlertRow) -> str:
    named = [
        f"{name.replace('job_', '')} {mute[name]}"
        for name in ("kind", "job_type", "queue", "subject")
        if mute[name] is not None
    ]
    what = visible(", ".join(named))
    return (
        f"muted ({mute['mute_id']}) until {moment(mute['until'])}: {what}"
        f" -- {visible(mute['reason'])} ({visible(mute['muted_by'])})"
    )
