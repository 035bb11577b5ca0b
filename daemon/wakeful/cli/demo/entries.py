"""What the demo tells, each as lines for people and as a document for programs.

Invariant: an entry says the same both ways. `minor` ones are what a live view shows by itself, so that it need not
repeat them. How entries are written is `screen`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wakeful.cli.demo.paint import Line


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Something to tell; `event` is what a program tells entries apart by."""

    event: str
    lines: tuple[Line, ...]
    fields: Mapping[str, object]
    minor: bool = False

    def document(self) -> dict[str, object]:
        """Give it as one JSON object."""
        return {"event": self.event, **self.fields}


def note(event: str, *lines: Line, **fields: object) -> Entry:
    """Give an entry of these lines."""
    return Entry(event=event, lines=lines, fields=fields)
