"""`wakeful config show`: what is in force, and where each value was given. Secrets are never part of it."""

from __future__ import annotations

import argparse

from wakeful.cli import exits
from wakeful.cli.options import Commands, add_command, add_group, load_configuration
from wakeful.cli.terminal import say, show, table, to_json
from wakeful.config import effective
from wakeful.core.links import missing_for_links


def register(commands: Commands) -> None:
    """Add the commands."""
    group = add_group(commands, "config", summary="look at the configuration")
    command = add_command(
        group,
        "show",
        run,
        summary="show every setting as it is in force, without secrets",
        example="wakeful config show --origin",
    )
    command.add_argument("--origin", action="store_true", help="show where each value was given")


def run(arguments: argparse.Namespace) -> int:
    """Print every setting."""
    configuration = load_configuration(arguments)
    rows = effective(configuration.settings, configuration.origins)
    if arguments.json:
        show(to_json([{"path": row.path, "value": row.value, "origin": str(row.origin)} for row in rows]))
        return exits.OK
    if configuration.path is not None:
        say(f"read from {configuration.path}")
    headings = ("SETTING", "VALUE", "ORIGIN") if arguments.origin else ("SETTING", "VALUE")
    shown = [(row.path, row.value, str(row.origin))[: len(headings)] for row in rows]
    show("\n".join(table(headings, shown, width=None)))
    missing = missing_for_links(configuration.settings)
    if missing is not None:
        say(f"messages of alerts have no buttons: {missing}")
    return exits.OK
