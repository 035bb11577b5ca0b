"""`wakeful jobs show`: everything about one job, its errors, steps and log lines included."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from wakeful.cli import exits
from wakeful.cli.commands.jobs.documents import decoded, document, step_text, steps_of
from wakeful.cli.database import with_database
from wakeful.cli.exits import CommandFailed
from wakeful.cli.options import Commands, add_command, job_id
from wakeful.cli.terminal import age, block, moment, show, stored_moment, to_json, visible
from wakeful.store import reads
from wakeful.store.database import Database
from wakeful.store.reads import JobRow


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "show",
        run,
        summary="show one job with its errors, steps and log lines",
        example="wakeful jobs show 01980f3e-7a10-7cc0-b1f0-3d0c5a4f9e21",
    )
    parser.add_argument("job_id", metavar="JOB_ID", type=job_id)


def run(arguments: argparse.Namespace) -> int:
    """Print it. JSON: the columns of wakeful.jobs, and `log`."""

    async def print_job(database: Database) -> int:
        row = await reads.show_job(database, arguments.job_id)
        if row is None:
            raise no_such_job(arguments.job_id)
        log = await reads.read_job_log(database, arguments.job_id)
        if arguments.json:
            show(to_json({**document(row), "log": [document(line) for line in log]}))
        else:
            show("\n".join([*_facts(row), *_texts(row), *_steps(row), *_errors(row), *_log(log)]))
        return exits.OK

    return with_database(arguments, print_job)


def no_such_job(wanted: object) -> CommandFailed:
    """Say that no table holds a job."""
    return CommandFailed(
        f"job {wanted} does not exist, or is past its retention",
        hint="`wakeful jobs list` shows the newest; finished jobs are kept for history.finished",
    )


def _facts(row: JobRow) -> Iterator[str]:
    instance = (
        row["instance_name"]
        and f"{row['instance_name']} on {row['instance_host']}, pid {row['instance_pid']}"
    )
    counted = [
        f"{row[name]} {name.replace('_', ' ')}" for name in ("handed_back", "snoozed", "lost") if row[name]
    ]
    facts = {
        "job": row["job_id"],
        "type": row["job_type"],
        "status": row["status"],
        "queue": f"{row['queue']} ({row['priority']})",
        "subject": row["subject"],
        "dedupe key": row["dedupe_key"],
        "attempts": ", ".join(
            [f"{row['attempts']} of {row['max_attempts']}", f"run {row['run_no']}", *counted]
        ),
        "created": f"{moment(row['created_at'])} ({age(row['age_s'])} ago)",
        "run after": moment(row["run_after"]) if row["status"] == "PENDING" else None,
        "started": moment(row["started_at"]),
        "lease until": moment(row["lease_until"]),
        "finished": moment(row["finished_at"]),
        "instance": instance or row["instance_id"],
        "tags": ", ".join(row["tags"]),
        "degraded": ", ".join(row["degraded"]),
    }
    for name, value in facts.items():
        if value not in (None, ""):
            yield f"{name + ':':<13}{visible(value)}"


def _texts(row: JobRow) -> Iterator[str]:
    for name in ("payload", "meta", "result"):
        if row[name] not in (None, "{}"):
            yield f"{name + ':':<13}{visible(row[name])}"
    if row["last_error"]:
        yield "last error:"
        yield block(row["last_error"])


def _steps(row: JobRow) -> Iterator[str]:
    steps = steps_of(row["progress"])
    if steps:
        yield "steps:"
        yield from (f"    {visible(step_text(step))}" for step in steps)


def _errors(row: JobRow) -> Iterator[str]:
    errors = decoded(row["errors"])
    if not isinstance(errors, list) or not errors:
        return
    yield "errors:"
    for entry in errors:
        yield from _error(entry) if isinstance(entry, dict) else (f"    {visible(entry)}",)


def _error(entry: dict[str, Any]) -> Iterator[str]:
    numbers = f"attempt {visible(entry.get('attempt'))}, run {visible(entry.get('run_no'))}"
    yield f"    {numbers}, {stored_moment(entry.get('at'))}"
    yield f"      {visible(entry.get('type', ''))}: {visible(entry.get('message', ''))}"
    if entry.get("traceback"):
        yield block(str(entry["traceback"]), indent="        ")


def _log(lines: list[JobRow]) -> Iterator[str]:
    if lines:
        yield "log:"
    for line in lines:
        head = f"run {line['run_no']}  {moment(line['logged_at'])}  {line['level']:<8}"
        yield f"    {visible(head)} {visible(line['message'])}"
