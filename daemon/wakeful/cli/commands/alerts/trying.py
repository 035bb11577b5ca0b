"""`wakeful alerts test SINK`: sends a real card, which a person has to see; the database is not needed."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from datetime import UTC, datetime

import anyio

from wakeful.cli import exits
from wakeful.cli.exits import CommandFailed
from wakeful.cli.options import Commands, add_command, load_configuration
from wakeful.cli.terminal import say, show, to_json, visible
from wakeful.core.settings import Settings
from wakeful.outbox.sinks import build_sinks
from wakeful.outbox.sinks.protocol import Answer, Failed, Sent, Sink
from wakeful.outbox.specimens import trial
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import ALERT_TOLD, Event


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "test",
        run,
        summary="send a test card to a sink of the configuration, and say what it answered",
        example="wakeful alerts test team",
    )
    parser.add_argument("sink", metavar="SINK")


def run(arguments: argparse.Namespace) -> int:
    """Send it; 0 where the sink took it."""
    settings = load_configuration(arguments).settings
    telemetry = Telemetry()
    telemetry.subscribe(_tell_line)
    sinks = {sink.name: sink for sink in build_sinks(settings.sinks, telemetry)}
    if arguments.sink not in sinks:
        raise CommandFailed(
            f'there is no sink "{arguments.sink}" in the configuration', hint=f"there are: {', '.join(sinks)}"
        )
    answer = anyio.run(_send, sinks[arguments.sink], settings, telemetry)
    taken = isinstance(answer, Sent)
    said = telemetry.redactor.text(answer.answer if isinstance(answer, Sent) else answer.reason)
    if arguments.json:
        show(to_json({"sink": arguments.sink, "taken": taken, "answer": said}))
    else:
        show(f"{visible(arguments.sink)}: {'taken' if taken else 'not taken'}: {visible(said)}")
    if taken:
        say("An answer such as 202 proves nothing until a person has seen the card: look for it now.")
    return exits.OK if taken else exits.FAILED


async def _send(sink: Sink, settings: Settings, telemetry: Telemetry) -> Answer:
    delivery = trial(settings.alerts, telemetry.redactor, now=datetime.now(UTC))
    with anyio.move_on_after(sink.timeout):
        try:
            return await sink.send(delivery)
        except Exception as error:  # noqa: BLE001 -- a sink's code may raise anything
            return Failed(reason=f"the sink raised {type(error).__name__}: {error}")
    return Failed(reason=f"no answer within {sink.timeout:g} s")


def _tell_line(event: Event, fields: Mapping[str, object]) -> None:
    """Show what a sink of kind log says: it would be in the daemon's log."""
    if event is ALERT_TOLD:
        say(visible(f"{event.name}: {fields.get('title')}"))
