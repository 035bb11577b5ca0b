"""`wakeful enqueue`: a job from a shell, by the same SQL function that every producer calls."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from wakeful.cli import exits
from wakeful.cli.database import with_database
from wakeful.cli.exits import CommandFailed
from wakeful.cli.options import Commands, add_command, count, duration, moment
from wakeful.cli.terminal import say, show, to_json
from wakeful.core import jsontext
from wakeful.core.names import PRIORITIES, name_problem
from wakeful.handlers.options import EnqueueOptions
from wakeful.store import reads
from wakeful.store.database import Database

STDIN: Final = "-"


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "enqueue",
        run,
        summary="enqueue a job and print its id",
        example="""wakeful enqueue COLLECT '{"place_id": "abc"}' --priority interactive""",
    )
    parser.add_argument("job_type", metavar="TYPE")
    parser.add_argument(
        "payload",
        metavar="PAYLOAD",
        nargs="?",
        default="{}",
        help="a JSON object, - for standard input, @FILE for a file",
    )
    options = parser.add_argument_group("options of the job")
    options.add_argument("--queue", metavar="NAME")
    options.add_argument("--priority", choices=PRIORITIES)
    options.add_argument("--subject", metavar="TEXT", help="what the job is about, such as a place id")
    options.add_argument(
        "--dedupe-key", metavar="KEY", help="create nothing while an active job has this key"
    )
    when = options.add_mutually_exclusive_group()
    when.add_argument(
        "--in", dest="delay", type=duration, metavar="TIME", help="not before so long from now: 90s, 2h"
    )
    when.add_argument("--at", type=moment, metavar="TIME", help="not before: 2026-12-24T18:00:00+01:00")
    options.add_argument("--max-attempts", type=count, metavar="N")
    options.add_argument(
        "--deadline", type=duration, metavar="TIME", help="longest time that one attempt may run"
    )
    options.add_argument("--tag", dest="tags", action="append", metavar="TAG", help="may be repeated")
    options.add_argument(
        "--meta", metavar="JSON", help="an object that is carried along, such as a traceparent"
    )
    options.add_argument("--group", metavar="KEY")
    options.add_argument("--limit-key", metavar="KEY")


def run(arguments: argparse.Namespace) -> int:
    """Enqueue it, and print the id; a job that has the dedupe key already is printed instead."""
    payload = _payload(arguments.payload)
    options = _options(arguments)

    async def enqueue(database: Database) -> int:
        row = await database.fetchrow("enqueue", *await _arguments(database, arguments, payload, options))
        assert row is not None, "enqueue() gives a row or raises"
        if arguments.json:
            show(to_json({"job_id": str(row["job_id"]), "created": row["created"]}))
            return exits.OK
        if not row["created"]:
            say("an active job has this dedupe key already; none was created")
        show(row["job_id"])
        return exits.OK

    return with_database(arguments, enqueue)


async def _arguments(
    database: Database, arguments: argparse.Namespace, payload: str, options: EnqueueOptions
) -> tuple[object, ...]:
    """The arguments of the statement `enqueue`; a delay counts by the database's clock."""
    if arguments.delay is not None:
        options = replace(options, run_after=await reads.time_after(database, arguments.delay))
    return (
        arguments.job_type,
        payload,
        options.queue,
        options.priority,
        options.subject,
        options.dedupe_key,
        None if options.run_after is None else options.run_after.isoformat(),
        options.max_attempts,
        options.deadline_seconds,
        None if options.tags is None else list(options.tags),
        options.meta_text,
        options.group,
        options.limit_key,
    )


def _options(arguments: argparse.Namespace) -> EnqueueOptions:
    if problem := name_problem(arguments.job_type):
        raise CommandFailed(f"the job type {problem}", code=exits.USAGE)
    try:
        return EnqueueOptions(
            queue=arguments.queue,
            priority=arguments.priority,
            subject=arguments.subject,
            dedupe_key=arguments.dedupe_key,
            run_after=arguments.at,
            max_attempts=arguments.max_attempts,
            deadline=arguments.deadline,
            tags=arguments.tags,
            meta=_meta(arguments.meta),
            group=arguments.group,
            limit_key=arguments.limit_key,
        )
    except ValueError as error:
        raise CommandFailed(str(error), code=exits.USAGE) from None


def _meta(text: str | None) -> Mapping[str, object] | None:
    if text is None:
        return None
    meta = _decoded(text, "--meta")
    if not isinstance(meta, dict):
        raise CommandFailed("--meta is not a JSON object", code=exits.USAGE)
    return meta


def _payload(given: str) -> str:
    """The payload's JSON text as it was written: PostgreSQL reads it, so every number stays as it is."""
    text = _read(given)
    if not isinstance(_decoded(text, "the payload"), dict):
        raise CommandFailed(
            "the payload is not a JSON object", hint="""write '{"key": "value"}'""", code=exits.USAGE
        )
    return text


def _read(given: str) -> str:
    try:
        if given == STDIN:
            return sys.stdin.buffer.read().decode()
        return Path(given[1:]).read_text(encoding="utf-8") if given.startswith("@") else given
    except OSError as error:
        raise CommandFailed(f"can't read {given[1:]}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CommandFailed("the payload is not UTF-8 text", code=exits.USAGE) from None


def _decoded(text: str, what: str) -> object:
    try:
        return jsontext.loads(text)
    except ValueError as error:
        raise CommandFailed(
            f"{what} is not JSON: {error}", hint="in a shell, put it in single quotes", code=exits.USAGE
        ) from None
