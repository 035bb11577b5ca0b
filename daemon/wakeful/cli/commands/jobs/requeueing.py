"""`wakeful jobs requeue`: run dead letters, or cancelled jobs, again, with their attempts at zero."""

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
        "requeue",
        run,
        summary="run DEAD or CANCELLED jobs again (a filter without --status means DEAD)",
        example="wakeful jobs requeue --type COLLECT --newer-than 1d",
    )
    add_choice(parser)


def run(arguments: argparse.Namespace) -> int:
    """Requeue each, and say what became of it."""
    return change_jobs(arguments, _requeue, statuses=("DEAD",))


async def _requeue(database: Database, job_id: UUID) -> Report:
    if await reads.requeue_job(database, job_id):
        return Report(changed=True, what="requeued")
    found = await reads.watch_jobs(database, [job_id])
    status = found[0]["status"] if found else "neither DEAD nor CANCELLED"
    return Report(
        changed=False, what=f"not requeued: it is {status}", hint="only DEAD and CANCELLED jobs run again"
    )
