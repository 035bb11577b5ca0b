"""`wakeful jobs list`: jobs by status, type, queue, subject and age, a page at a time, the newest first."""

from __future__ import annotations

import argparse
import shutil
import sys
from typing import Final

from wakeful.cli import exits
from wakeful.cli.commands.jobs.documents import current_step, document, step_text, steps_of
from wakeful.cli.commands.jobs.selecting import add_filter, chosen_filter
from wakeful.cli.database import with_database
from wakeful.cli.options import Commands, add_command, job_id, page_size
from wakeful.cli.terminal import age, say, show, table, to_json
from wakeful.store import reads
from wakeful.store.database import Database
from wakeful.store.reads import JobRow

DEFAULT_PAGE: Final = 50
_HEADINGS: Final = ("JOB ID", "STATUS", "TYPE", "QUEUE", "SUBJECT", "ATTEMPT", "AGE", "WHAT")


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "list",
        run,
        summary="list jobs, the newest first",
        example="wakeful jobs list --status DEAD --type COLLECT --newer-than 1d",
    )
    add_filter(parser)
    page = parser.add_argument_group("pages")
    page.add_argument(
        "--limit", type=page_size, default=DEFAULT_PAGE, metavar="N", help="default: %(default)s"
    )
    page.add_argument(
        "--after", type=job_id, metavar="JOB_ID", help="the next page: what is older than this job"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print one page. JSON: ``{"jobs": […], "next": id or null}``."""

    async def print_page(database: Database) -> int:
        wanted, limit = chosen_filter(arguments), arguments.limit
        # One more than is shown tells whether there is a next page.
        rows = await reads.list_jobs(database, wanted, limit=limit + 1, after=arguments.after)
        shown = rows[:limit]
        after = str(shown[-1]["job_id"]) if len(rows) > limit else None
        if arguments.json:
            show(to_json({"jobs": [document(row) for row in shown], "next": after}))
            return exits.OK
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        show("\n".join(table(_HEADINGS, [_cells(row) for row in shown], width=width)))
        if after is not None:
            say(f"more: --after {after}")
        return exits.OK

    return with_database(arguments, print_page)


def _cells(row: JobRow) -> tuple[str, ...]:
    return (
        str(row["job_id"]),
        row["status"],
        row["job_type"],
        row["queue"],
        row["subject"] or "",
        f"{row['attempts']}/{row['max_attempts']}",
        age(row["age_s"]),
        _what(row),
    )


def _what(row: JobRow) -> str:
    """The few words that say most about a job in its status."""
    if row["status"] == "RUNNING":
        step = current_step(steps_of(row["progress"]))
        return "" if step is None else step_text(step)
    if row["status"] == "DONE":
        return "degraded: " + ", ".join(row["degraded"]) if row["degraded"] else ""
    return (row["last_error"] or "").partition("\n")[0]
