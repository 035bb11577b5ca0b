"""`wakeful version`: what runs here."""

from __future__ import annotations

import argparse
import platform
from importlib import metadata

from wakeful.cli import exits
from wakeful.cli.options import Commands, add_command
from wakeful.cli.terminal import show, to_json


def register(commands: Commands) -> None:
    """Add the command."""
    add_command(
        commands, "version", run, summary="show the version of Wakeful", example="wakeful version --json"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print it."""
    version = metadata.version("wakeful")
    if arguments.json:
        show(to_json({"wakeful": version, "python": platform.python_version()}))
    else:
        show(f"wakeful {version} (Python {platform.python_version()})")
    return exits.OK
