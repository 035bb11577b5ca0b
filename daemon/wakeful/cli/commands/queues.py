"""`wakeful queues`: what lies in each queue, and pausing and resuming one, which survives every restart."""

from __future__ import annotations

import argparse
import shutil
import sys
from dataclasses import asdict
from typing import Final

from wakeful.cli import exits
from wakeful.cli.database import with_database
from wakeful.cli.options import Commands, add_command, add_group
from wakeful.cli.terminal import age, say, show, table, to_json, visible
from wakeful.store import reads
from wakeful.store.database import Database
from wakeful.store.reads import QueueState

_HEADINGS: Final = ("QUEUE", "STATE", "WAITING", "RUNNING", "SCHEDULED", "DEAD", "OLDEST DUE", "REASON")


def register(commands: Commands) -> None:
    """Add the commands."""
    group = add_group(commands, "queues", summary="look at queues, pause and resume them")
    add_command(
        group, "list", run_list, summary="show every queue and what lies in it", example="wakeful queues list"
    )
    pause = add_command(
        group,
        "pause",
        run_pause,
        summary="claim nothing more from a queue; running jobs go on",
        example='wakeful queues pause mail --reason "the provider is down"',
    )
    pause.add_argument("queue", metavar="QUEUE")
    pause.add_argument("--reason", metavar="TEXT", help="shown to everybody who wonders")
    resume = add_command(
        group, "resume", run_resume, summary="open a paused queue again", example="wakeful queues resume mail"
    )
    resume.add_argument("queue", metavar="QUEUE")


def run_list(arguments: argparse.Namespace) -> int:
    """Print the queues."""

    async def print_queues(database: Database) -> int:
        queues = await reads.list_queues(database)
        if arguments.json:
            show(to_json({"queues": [_document(queue) for queue in queues]}))
        else:
            width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
            show("\n".join(table(_HEADINGS, [_row(queue) for queue in queues], width=width)))
        return exits.OK

    return with_database(arguments, print_queues)


def run_pause(arguments: argparse.Namespace) -> int:
    """Pause a queue."""

    async def pause(database: Database) -> int:
        changed = await reads.pause_queue(database, arguments.queue, arguments.reason)
        _report(arguments, "paused" if changed else "was paused already", changed=changed)
        if not await reads.has_met_queue(database, arguments.queue):
            say("no job has been in a queue of this name lately; `wakeful queues list` has the names")
        return exits.OK

    return with_database(arguments, pause)


def run_resume(arguments: argparse.Namespace) -> int:
    """Resume a queue."""

    async def resume(database: Database) -> int:
        changed = await reads.resume_queue(database, arguments.queue)
        _report(arguments, "resumed" if changed else "was not paused", changed=changed)
        return exits.OK

    return with_database(arguments, resume)


def _report(arguments: argparse.Namespace, what: str, *, changed: bool) -> None:
    if arguments.json:
        show(to_json({"queue": arguments.queue, "changed": changed}))
    else:
        show(f"{visible(arguments.queue)}: {what}")


def _document(queue: QueueState) -> dict[str, object]:
    paused_at = None if queue.paused_at is None else queue.paused_at.isoformat()
    document: dict[str, object] = {
        **asdict(queue),
        "paused_at": paused_at,
        "oldest_due_seconds": queue.oldest,
    }
    del document["oldest"]
    return document


def _row(queue: QueueState) -> tuple[str, ...]:
    paused = queue.paused_at is not None
    counts = (queue.waiting, queue.running, queue.scheduled, queue.dead)
    return (
        queue.queue,
        "paused" if paused else "open",
        *map(str, counts),
        age(queue.oldest),
        queue.reason or "",
    )
