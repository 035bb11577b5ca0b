"""`wakeful alerts show`: everything about one alert: what happened last, and who was told what."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Final

from wakeful.cli import exits
from wakeful.cli.commands.jobs.documents import decoded, document
from wakeful.cli.database import with_database
from wakeful.cli.exits import CommandFailed
from wakeful.cli.options import Commands, add_command, count
from wakeful.cli.terminal import moment, show, stored_moment, to_json, visible
from wakeful.store import alert_board
from wakeful.store.alert_board import AlertRow
from wakeful.store.database import Database

_OCCURRENCES: Final = 10
_STATES: Final[Mapping[str, str]] = {"failed": "given up", "merged": "told in a digest"}


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "show",
        run,
        summary="show one alert: its latest occurrences, and what was sent to whom",
        example="wakeful alerts show 7",
    )
    parser.add_argument("alert_id", metavar="ID", type=count)


def run(arguments: argparse.Namespace) -> int:
    """Print it."""

    async def print_alert(database: Database) -> int:
        row = await alert_board.show_alert(database, arguments.alert_id)
        if row is None:
            raise no_such_alert(arguments.alert_id)
        occurrences = await alert_board.list_occurrences(database, arguments.alert_id, _OCCURRENCES)
        if arguments.json:
            shown = {
                **document(row),
                "messages": decoded(row["messages"]),
                "details": decoded(row["details"]),
            }
            show(to_json({**shown, "latest": [document(one) for one in occurrences]}))
        else:
            show("\n".join([*_facts(row), *_latest(occurrences), *_messages(row)]))
        return exits.OK

    return with_database(arguments, print_alert)


def no_such_alert(alert_id: int) -> CommandFailed:
    """Say that there is no such alert."""
    return CommandFailed(
        f"there is no alert {alert_id}", hint="`wakeful alerts list` shows those that are not resolved"
    )


def _facts(row: AlertRow) -> Iterator[str]:
    taken = row["acknowledged_at"] and f"{moment(row['acknowledged_at'])} by {row['acknowledged_by']}"
    ended = row["resolved_at"] and f"{moment(row['resolved_at'])}: {row['resolved_reason']}"
    facts = {
        "alert": row["alert_id"],
        "title": row["title"],
        "kind": f"{row['kind']} ({row['severity']})",
        "state": row["state"],
        "occurrences": row["occurrences"],
        "first seen": moment(row["first_seen"]),
        "last seen": moment(row["last_seen"]),
        "key": row["dedupe_key"],
        "type": row["job_type"],
        "subject": row["subject"],
        "job": row["job_id"],
        "taken on": taken,
        "ended": ended,
        "details": None if row["details"] == "{}" else row["details"],
    }
    for name, value in facts.items():
        if value not in (None, ""):
            yield f"{name + ':':<13}{visible(value)}"


def _latest(occurrences: list[AlertRow]) -> Iterator[str]:
    if occurrences:
        yield "latest:"
    for one in occurrences:
        about = " ".join(str(one[name]) for name in ("job_id", "subject") if one[name] is not None)
        parts = (moment(one["created_at"]), visible(about), visible(one["title"]))
        yield f"    {'  '.join(part for part in parts if part)}"


def _messages(row: AlertRow) -> Iterator[str]:
    messages = decoded(row["messages"])
    if not isinstance(messages, list) or not messages:
        return
    yield "messages:"
    for one in messages:
        answer = one["last_answer"] or ""
        yield (
            f"    {stored_moment(one['created_at'])}  {visible(one['sink'])}  {visible(one['message'])}"
            f"  {_STATES.get(one['state'], one['state'])}, tries: {one['attempts']}"
            f"{', without details' if one['bare'] else ''}  {visible(answer)}"
        ).rstrip()
    if any(one["state"] == "failed" for one in messages):
        yield f"what was given up is sent once more by: wakeful alerts resend {row['alert_id']}"
