"""`wakeful bench`: what this database does for Wakeful, measured with jobs that are removed again."""

from __future__ import annotations

import argparse
from typing import Final

from wakeful.cli import exits
from wakeful.cli.bench.report import document, lines
from wakeful.cli.bench.session import run_bench
from wakeful.cli.options import Commands, add_command, count, duration, load_configuration
from wakeful.cli.terminal import say, show, to_json

DEFAULT_JOBS: Final = 20_000
MOST_JOBS: Final = 1_000_000
DEFAULT_SECONDS: Final = 30.0


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "bench",
        run,
        summary="measure this database with no-op jobs in a queue of their own, and remove them again",
        example="wakeful bench --jobs 50000",
    )
    parser.add_argument(
        "--jobs", metavar="N", type=_jobs, default=DEFAULT_JOBS, help=f"how many (default: {DEFAULT_JOBS})"
    )
    parser.add_argument(
        "--seconds",
        metavar="TIME",
        type=_seconds,
        default=DEFAULT_SECONDS,
        help="longest time for enqueueing them, and again for draining them (default: 30s)",
    )
    parser.add_argument(
        "--concurrency", metavar="N", help="how many jobs run at once (default: the configured)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Measure and print; gives the exit code."""
    flags = {} if arguments.concurrency is None else {"worker.concurrency": arguments.concurrency}
    settings = load_configuration(arguments, flags).settings
    found = run_bench(settings, jobs=arguments.jobs, seconds=arguments.seconds)
    if found is None:
        say("stopped before the end: there is nothing to tell")
        return exits.INTERRUPTED
    show(to_json(document(found)) if arguments.json else "\n".join(lines(found)))
    return exits.OK


def _jobs(text: str) -> int:
    number = count(text)
    if number > MOST_JOBS:
        raise argparse.ArgumentTypeError(f"{text} is more than {MOST_JOBS:,}")
    return number


def _seconds(text: str) -> float:
    seconds = duration(text)
    if seconds <= 0:
        raise argparse.ArgumentTypeError("no time is too little")
    return seconds
