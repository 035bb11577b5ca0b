"""`wakeful demo`: the daemon, a PostgreSQL of its own and the example's pipeline, live in the terminal."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Final

from wakeful.cli.demo.example import prepare_example
from wakeful.cli.demo.plan import plan_from
from wakeful.cli.demo.session import run_demo
from wakeful.cli.options import Commands, add_command, duration

DEFAULT_SECONDS: Final = 5.0
SHORTEST_SECONDS: Final = 0.5


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "demo",
        run,
        summary="run a daemon on a PostgreSQL of its own, with an example pipeline, live in the terminal",
        example="wakeful demo --once\n  wakeful demo --site https://shop.example/",
    )
    parser.add_argument(
        "--once",
        action="store_true",
        help="each place once, then end; exit code 1 where one dies that should not",
    )
    parser.add_argument(
        "--site",
        metavar="URL",
        action="append",
        help="onboard this site instead of the bundled ones; may be repeated",
    )
    parser.add_argument(
        "--data",
        metavar="FOLDER",
        type=Path,
        help="data folder (default: .wakeful/demo in a checkout, else in $XDG_DATA_HOME/wakeful)",
    )
    parser.add_argument(
        "--every",
        metavar="TIME",
        type=_interval,
        default=DEFAULT_SECONDS,
        help="time between two pipelines (default: 5s)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the demo; gives its exit code."""
    plan = plan_from(arguments, os.environ)
    prepare_example()
    return run_demo(plan, os.environ, as_json=arguments.json)


def _interval(text: str) -> float:
    seconds = duration(text)
    if seconds < SHORTEST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r} is less than {SHORTEST_SECONDS:g} s")
    return seconds
