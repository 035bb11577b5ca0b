"""`wakeful alerts render RULE`: the message that a rule makes, with made-up content; nothing is sent."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime

from wakeful.cli import exits
from wakeful.cli.exits import CommandFailed
from wakeful.cli.options import Commands, add_command, load_configuration
from wakeful.cli.terminal import show
from wakeful.outbox import specimens
from wakeful.telemetry.redaction import Redactor


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "render",
        run,
        summary="print the message that a rule makes, with made-up content (--json: on one line, as it is stored)",
        example="wakeful alerts render job_dead",
    )
    parser.add_argument("rule", metavar="RULE", help=", ".join(specimens.names()))


def run(arguments: argparse.Namespace) -> int:
    """Print it."""
    if arguments.rule not in specimens.names():
        raise CommandFailed(
            f'there is no rule "{arguments.rule}"', hint=f"there are: {', '.join(specimens.names())}"
        )
    settings = load_configuration(arguments).settings.alerts
    text = specimens.message_of(arguments.rule, settings, Redactor(), now=datetime.now(UTC))
    show(text if arguments.json else json.dumps(json.loads(text), indent=2, ensure_ascii=False))
    return exits.OK
