"""`wakeful alerts test SINK`: sends a real card, which a person has to see, and opens the sink again if it was closed.

The database is not needed for the card. Where there is one, and the sink takes the card, daemons send to it again.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from datetime import UTC, datetime

import anyio

from wakeful.cli import exits
from wakeful.cli.database import with_database
from wakeful.cli.exits import CommandFailed
from wakeful.cli.options import Commands, add_command, load_configuration
from wakeful.cli.terminal import say, show, to_json, visible
from wakeful.core.links import linked, missing_for_links
from wakeful.core.settings import Settings
from wakeful.errors import ConfigError, StoreError
from wakeful.outbox.sinks import build_sinks
from wakeful.outbox.sinks.protocol import Answer, Failed, Sent, Sink
from wakeful.outbox.specimens import trial
from wakeful.store import alert_board
from wakeful.store.database import Database
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
        missing = missing_for_links(settings)
        say("Try its link, too." if missing is None else f"It has no buttons: {missing}.")
        _open(arguments)
    return exits.OK if taken else exits.FAILED


def _open(arguments: argparse.Namespace) -> None:
    """Open the sink for the daemons, should it be closed; without a database there is nothing to open."""

    async def open_sink(database: Database) -> int:
        if await alert_board.open_sink(database, arguments.sink):
            say(f"{visible(arguments.sink)} was closed: it is open again, and gets what waited for it.")
        return exits.OK

    try:
        with_database(arguments, open_sink)
    except ConfigError:
        pass  # no database is configured here
    except StoreError as error:
        say(
            f"Whether {visible(arguments.sink)} is closed for the daemons is not known: {visible(str(error))}"
        )


async def _send(sink: Sink, settings: Settings, telemetry: Telemetry) -> Answer:
    delivery = trial(linked(settings), telemetry.redactor, now=datetime.now(UTC))
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
