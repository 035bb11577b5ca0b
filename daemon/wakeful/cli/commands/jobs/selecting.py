"""Which jobs a command is about: by id, or by a filter."""

from __future__ import annotations

import argparse
from typing import Final
from uuid import UUID

from wakeful.cli import exits
from wakeful.cli.exits import CommandFailed
from wakeful.cli.options import duration, job_id
from wakeful.store import reads
from wakeful.store.database import Database
from wakeful.store.reads import JobFilter

STATUSES: Final = ("PENDING", "RUNNING", "DONE", "DEAD", "CANCELLED")
_PAGE: Final = 1000


def add_filter(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose jobs; those that may be repeated mean any of their values."""
    chosen = parser.add_argument_group("which jobs")
    chosen.add_argument(
        "--status", dest="statuses", action="append", type=str.upper, choices=STATUSES, help="may be repeated"
    )
    chosen.add_argument("--type", dest="job_types", action="append", metavar="TYPE", help="may be repeated")
    chosen.add_argument("--queue", dest="queues", action="append", metavar="QUEUE", help="may be repeated")
    chosen.add_argument("--subject", metavar="TEXT", help="exactly this subject")
    chosen.add_argument("--older-than", type=duration, metavar="TIME", help="enqueued longer ago: 1h, 7d")
    chosen.add_argument("--newer-than", type=duration, metavar="TIME", help="enqueued since: 10m")


def add_ids(parser: argparse.ArgumentParser) -> None:
    """Add job ids as arguments."""
    parser.add_argument("job_ids", metavar="JOB_ID", nargs="*", type=job_id)


def chosen_filter(arguments: argparse.Namespace) -> JobFilter:
    """The filter of the command line."""
    return JobFilter(
        statuses=tuple(arguments.statuses or ()),
        job_types=tuple(arguments.job_types or ()),
        queues=tuple(arguments.queues or ()),
        subject=arguments.subject,
        older_than=arguments.older_than,
        newer_than=arguments.newer_than,
    )


def check_choice(arguments: argparse.Namespace) -> None:
    """Refuse neither ids nor a filter, which would mean every job, and both."""
    named = bool(arguments.job_ids)
    if named != chosen_filter(arguments).is_empty():
        raise CommandFailed(
            "name jobs by their ids, or choose them by a filter" + (", not both" if named else ""),
            hint="such as --status DEAD --type COLLECT",
            code=exits.USAGE,
        )


async def chosen_jobs(
    database: Database, arguments: argparse.Namespace, *, statuses: tuple[str, ...]
) -> list[UUID]:
    """The ids given, or those that the filter finds now, oldest first; `statuses` where it names none."""
    if arguments.job_ids:
        return list(dict.fromkeys(arguments.job_ids))
    wanted = chosen_filter(arguments)
    if not wanted.statuses:
        wanted = JobFilter(
            statuses=statuses,
            job_types=wanted.job_types,
            queues=wanted.queues,
            subject=wanted.subject,
            older_than=wanted.older_than,
            newer_than=wanted.newer_than,
        )
    found: list[UUID] = []
    while page := await reads.find_job_ids(database, wanted, limit=_PAGE, after=found[-1] if found else None):
        found += page
    return found
