"""Options that many commands have, and how each value of a command line is read.

Invariant: a value that makes no sense is refused by argparse itself, with exit code 2, before anything is connected to.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NoReturn
from uuid import UUID

from wakeful.cli import exits
from wakeful.config import Configuration, load
from wakeful.core.durations import parse_duration

LARGEST_PAGE: Final = 10_000

Commands = Any  # argparse's own type for a group of commands is private
Run = Callable[[argparse.Namespace], int]


class Parser(argparse.ArgumentParser):
    """Refuses with a hint where the help is; the parsers of its commands are of the same kind."""

    def error(self, message: str) -> NoReturn:
        """Say what makes no sense; exits with 2."""
        self.print_usage(sys.stderr)
        self.exit(
            exits.USAGE, f"{self.prog}: error: {message}\n  hint: `{self.prog} --help` shows what there is\n"
        )


def add_command(
    commands: Commands, name: str, run: Run, *, summary: str, example: str
) -> argparse.ArgumentParser:
    """Add a command with the options that every command has; `example` is shown below its help."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=summary,
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run)
    add_shared_options(parser, default=argparse.SUPPRESS)
    return parser


def add_group(commands: Commands, name: str, *, summary: str) -> Commands:
    """Add a command that only has commands of its own."""
    parser = commands.add_parser(name, help=summary, description=summary, allow_abbrev=False)
    add_shared_options(parser, default=argparse.SUPPRESS)
    return parser.add_subparsers(title="commands", metavar="COMMAND", required=True)


def add_shared_options(parser: argparse.ArgumentParser, *, default: str | None) -> None:
    """Add the options that may stand before or after a command's name."""
    shared = parser.add_argument_group("everywhere")
    shared.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        default=default,
        help="configuration file (default: $WAKEFUL_CONFIG, else config.toml here)",
    )
    shared.add_argument(
        "--database",
        metavar="DSN",
        default=default,
        help="database; DATABASE_URL is better, since other users of this host can read command lines",
    )
    shared.add_argument("--json", action="store_true", default=default or False, help="JSON for programs")


def load_configuration(
    arguments: argparse.Namespace, flags: Mapping[str, object] | None = None
) -> Configuration:
    """Read the configuration: flags > environment > file > defaults. Raises ConfigError with all mistakes."""
    given: dict[str, object] = dict(flags or {})
    if arguments.database is not None:
        given["database.dsn"] = arguments.database
    return load(environ=os.environ, path=arguments.config, flags=given)


def duration(text: str) -> float:
    """Read "30s", "5m", "1h" or a number of seconds."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def job_id(text: str) -> UUID:
    """Read the id of a job."""
    try:
        return UUID(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a job id, such as 01980f3e-7a10-7cc0-b1f0-3d0c5a4f9e21"
        ) from None


def page_size(text: str) -> int:
    """Read how many rows to show at most."""
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= LARGEST_PAGE:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {LARGEST_PAGE}")
    return int(text)


def count(text: str) -> int:
    """Read a whole number from 1 on."""
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def moment(text: str) -> datetime:
    """Read a time with its zone: 2026-12-24T18:00:00+01:00."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time, such as 2026-12-24T18:00:00+01:00"
        ) from None
    if at.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text!r} has no time zone: add Z or +01:00")
    return at
