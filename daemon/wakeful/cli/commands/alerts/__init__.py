"""`wakeful alerts`: look at alerts, take them on, end and mute them; try a sink; see what a rule would say."""

from __future__ import annotations

from wakeful.cli.commands.alerts import changing, listing, muting, rendering, resending, showing, trying
from wakeful.cli.options import Commands, add_group


def register(commands: Commands) -> None:
    """Add the commands."""
    group = add_group(
        commands, "alerts", summary="list, show, acknowledge, resolve, mute and re-send alerts; test sinks"
    )
    for command in (listing, showing, changing, muting, resending, trying, rendering):
        command.register(group)
