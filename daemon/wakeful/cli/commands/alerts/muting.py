"""`wakeful alerts mute` and `unmute`: tell nobody of some alerts for a while, with a reason that everybody sees."""

from __future__ import annotations

import argparse

from wakeful.cli import exits
from wakeful.cli.database import with_database
from wakeful.cli.exits import CommandFailed
from wakeful.cli.options import Commands, add_command, count, duration
from wakeful.cli.terminal import moment, show, to_json
from wakeful.store import alert_board
from wakeful.store.alert_board import Named
from wakeful.store.database import Database


def register(commands: Commands) -> None:
    """Add the commands."""
    mute = add_command(
        commands,
        "mute",
        run_mute,
        summary="tell nobody of alerts that fit all that is named, for a while; they are counted all the same",
        example='wakeful alerts mute --type COLLECT --for 2h --reason "the provider is being moved"',
    )
    mute.add_argument("--kind", metavar="KIND", help="of this kind, such as job_dead")
    mute.add_argument("--type", dest="job_type", metavar="TYPE", help="about this job type")
    mute.add_argument("--queue", metavar="QUEUE", help="about this queue")
    mute.add_argument("--subject", metavar="TEXT", help="about this subject alone")
    mute.add_argument(
        "--for", dest="seconds", type=duration, required=True, metavar="TIME", help="30m, 2h, 1d"
    )
    mute.add_argument("--reason", required=True, metavar="TEXT", help="for everybody who wonders")
    unmute = add_command(
        commands,
        "unmute",
        run_unmute,
        summary="take mutes back before their time (`alerts list` shows their numbers)",
        example="wakeful alerts unmute 3",
    )
    unmute.add_argument("mute_ids", metavar="MUTE", nargs="+", type=count)


def run_mute(arguments: argparse.Namespace) -> int:
    """Mute."""
    named = Named(
        kind=arguments.kind, job_type=arguments.job_type, queue=arguments.queue, subject=arguments.subject
    )
    if named == Named():
        raise CommandFailed(
            "name what to mute", hint="--kind, --type, --queue or --subject", code=exits.USAGE
        )

    async def mute(database: Database) -> int:
        mute_id, until = await alert_board.mute(
            database, named, seconds=arguments.seconds, reason=arguments.reason
        )
        if arguments.json:
            show(to_json({"mute_id": mute_id, "until": until.isoformat()}))
        else:
            show(f"mute {mute_id}: until {moment(until)}")
        return exits.OK

    return with_database(arguments, mute)


def run_unmute(arguments: argparse.Namespace) -> int:
    """Take mutes back."""

    async def unmute(database: Database) -> int:
        failed = 0
        for mute_id in arguments.mute_ids:
            changed = await alert_board.unmute(database, mute_id)
            failed += not changed
            if arguments.json:
                show(to_json({"mute_id": mute_id, "changed": changed}))
            else:
                show(f"mute {mute_id}: {'taken back' if changed else 'not there, or over'}")
        return exits.FAILED if failed else exits.OK

    return with_database(arguments, unmute)
