"""`wakeful jobs cancel`: a waiting job at once, a running one as soon as its owner hears of it."""

from __future__ import annotations

import argparse
from uuid import UUID

from wakeful.cli.commands.jobs.changing import Report, add_choice, change_jobs
from wakeful.cli.options import Commands, add_command
from wakeful.store import reads
from wakeful.store.database import Database


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "cancel",
        run,
        summary="cancel jobs (a filter without --status means PENDING and RUNNING)",
        example='wakeful jobs cancel --queue mail --older-than 1d --reason "too late"',
    )
    add_choice(parser)
    parser.add_argument("--reason", metavar="TEXT", help="kept with the job and in the audit")


def run(arguments: argparse.Namespace) -> int:
    """Cancel each, and say what became of it."""

    async def cancel(database: Database, job_id: UUID) -> Report:
        status = await reads.cancel_job(database, job_id, arguments.reason)
        match status:
            case "CANCELLED":
                return Report(changed=True, what="cancelled")
            case "RUNNING":
                return Report(changed=True, what="asked to stop; its owner hears of it within a heartbeat")
            case _:
                return Report(changed=False, what=f"not cancelled: it had ended before, as {status}")

    return change_jobs(arguments, cancel, statuses=("PENDING", "RUNNING"))
