"""`wakeful alerts render RULE`: what a rule says, as a sink would send it, with made-up content; nothing is sent."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from typing import get_args

import anyio

from wakeful.cli import exits
from wakeful.cli.exits import CommandFailed
from wakeful.cli.options import Commands, add_command, load_configuration
from wakeful.cli.terminal import block, say, show
from wakeful.config import hidden_in
from wakeful.core.links import linked, missing_for_links
from wakeful.core.settings import Settings, SinkKind, SinkSettings
from wakeful.outbox import specimens
from wakeful.outbox.rendering import rendered
from wakeful.outbox.sinks import DEFAULT_NAME
from wakeful.telemetry.redaction import Redactor


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "render",
        run,
        summary="print what a rule says, with made-up content: the stored message, or what a sink makes of it"
        " (--json: the message on one line)",
        example="wakeful alerts render job_dead --kind teams",
    )
    parser.add_argument("rule", metavar="RULE", help=", ".join(specimens.names()))
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--sink", metavar="SINK", help="as this sink of the configuration would send it")
    which.add_argument("--kind", choices=get_args(SinkKind), help="as a sink of this kind would send it")


def run(arguments: argparse.Namespace) -> int:
    """Print it."""
    if arguments.rule not in specimens.names():
        raise CommandFailed(
            f'there is no rule "{arguments.rule}"', hint=f"there are: {', '.join(specimens.names())}"
        )
    settings = load_configuration(arguments).settings
    sink = _sink(arguments, settings)
    redactor = Redactor(hidden_in(settings))
    delivery = specimens.specimen_of(arguments.rule, linked(settings), redactor, now=datetime.now(UTC))
    missing = missing_for_links(settings)
    if missing is not None:
        say(f"without buttons: {missing}")
    if sink is None:
        body = delivery.body
        show(body if arguments.json else json.dumps(json.loads(body), indent=2, ensure_ascii=False))
        return exits.OK
    text = anyio.run(lambda: rendered(delivery, sink, name=arguments.sink or sink.kind))
    show(block(redactor.text(text), indent=""))
    return exits.OK


def _sink(arguments: argparse.Namespace, settings: Settings) -> SinkSettings | None:
    """Give the sink to render for; None for the message itself."""
    if arguments.kind is not None:
        return SinkSettings(kind=arguments.kind)
    if arguments.sink is None:
        return None
    sinks = settings.sinks or {DEFAULT_NAME: SinkSettings(kind="log")}
    if arguments.sink not in sinks:
        raise CommandFailed(
            f'there is no sink "{arguments.sink}" in the configuration', hint=f"there are: {', '.join(sinks)}"
        )
    return sinks[arguments.sink]
