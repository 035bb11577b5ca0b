"""`wakeful jobs`: look at jobs, watch them, run them again, cancel them."""

from __future__ import annotations

from wakeful.cli.commands.jobs import cancelling, listing, requeueing, showing, tailing
from wakeful.cli.options import Commands, add_group


def register(commands: Commands) -> None:
    """Add the commands."""
    group = add_group(commands, "jobs", summary="list, show, watch, requeue and cancel jobs")
    for command in (listing, showing, tailing, requeueing, cancelling):
        command.register(group)
