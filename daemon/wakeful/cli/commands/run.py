"""`wakeful run`: the daemon itself."""

from __future__ import annotations

import argparse

from wakeful.cli.options import Commands, add_command, load_configuration
from wakeful.process import run_process
from wakeful.starting import Options


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "run",
        run,
        summary="run the daemon until SIGTERM or Ctrl-C; a second signal interrupts jobs, a third exits at once",
        example="wakeful run --handlers myapp.jobs --concurrency 20",
    )
    parser.add_argument(
        "--handlers",
        action="append",
        metavar="MODULES",
        help="modules with handlers, instead of the configured ones: a,b; may be repeated",
    )
    parser.add_argument(
        "--queues",
        action="append",
        metavar="NAMES",
        help="queues to serve, instead of the configured ones: a,b; may be repeated",
    )
    parser.add_argument("--concurrency", metavar="N", help="how many jobs run here at once")
    parser.add_argument("--name", help="name of this instance, for people")
    parser.add_argument(
        "--migrate", action="store_true", help="bring the schema up to date first; else a daemon never does"
    )
    parser.add_argument(
        "--drain",
        action="store_true",
        help="run what is due, and exit when nothing is; what is due later is left",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the daemon; gives its exit code."""
    given = {
        "handlers": _joined(arguments.handlers),
        "worker.queues": _joined(arguments.queues),
        "worker.concurrency": arguments.concurrency,
        "worker.name": arguments.name,
    }
    flags = {path: value for path, value in given.items() if value is not None}
    configuration = load_configuration(arguments, flags)
    return run_process(configuration, Options(migrate=arguments.migrate, until_empty=arguments.drain))


def _joined(given: list[str] | None) -> str | None:
    """All that an option named, however often it stood there."""
    return None if given is None else ",".join(given)
