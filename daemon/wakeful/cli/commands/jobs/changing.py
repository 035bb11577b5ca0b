"""What is done to many jobs, one by one: each in a transaction of its own, each with a line that says what came of it.

Invariant: one job that can't be changed stops no other, and is told in the exit code. What a filter finds is fixed
before the first change.
"""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from uuid import UUID

from wakeful.cli import exits
from wakeful.cli.commands.jobs.selecting import add_filter, add_ids, check_choice, chosen_jobs
from wakeful.cli.database import with_database
from wakeful.cli.terminal import say, show, to_json, visible
from wakeful.errors import OptionRefused
from wakeful.store.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What became of one job: `changed`, and the words for it; a refusal has a hint."""

    changed: bool
    what: str
    hint: str | None = None


Change = Callable[[Database, UUID], Awaitable[Report]]


def add_choice(parser: argparse.ArgumentParser) -> None:
    """Add ids, filter and --dry-run."""
    add_ids(parser)
    add_filter(parser)
    parser.add_argument("--dry-run", action="store_true", help="only say which jobs it would be")


def change_jobs(arguments: argparse.Namespace, change: Change, *, statuses: tuple[str, ...]) -> int:
    """Change the chosen jobs; 1 where one could not be. `statuses`: those that a filter without any means."""
    check_choice(arguments)

    async def run(database: Database) -> int:
        jobs = await chosen_jobs(database, arguments, statuses=statuses)
        if arguments.dry_run:
            _print_jobs(jobs, as_json=arguments.json)
            return exits.OK
        failed = 0
        for job_id in jobs:
            report = await _reported(database, job_id, change)
            failed += not report.changed
            _print_report(job_id, report, as_json=arguments.json)
        say(f"{len(jobs) - failed} changed, {failed} not")
        return exits.FAILED if failed else exits.OK

    return with_database(arguments, run)


async def _reported(database: Database, job_id: UUID, change: Change) -> Report:
    try:
        return await change(database, job_id)
    except OptionRefused as error:
        return Report(changed=False, what=f"{error.message} [{error.sqlstate}]", hint=error.hint)


def _print_jobs(jobs: list[UUID], *, as_json: bool) -> None:
    for job_id in jobs:
        show(to_json({"job_id": str(job_id)}) if as_json else job_id)
    say(f"{len(jobs)} would be changed")


def _print_report(job_id: UUID, report: Report, *, as_json: bool) -> None:
    if as_json:
        hint = {} if report.hint is None else {"hint": report.hint}
        show(to_json({"job_id": str(job_id), "changed": report.changed, "what": report.what, **hint}))
        return
    hint_text = "" if report.hint is None else f" ({report.hint})"
    show(f"{job_id}  {visible(report.what)}{visible(hint_text)}")
