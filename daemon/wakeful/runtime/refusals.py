"""What the database refuses to a claimer again and again: news when it begins, and when it becomes something else (R5).

Invariant: what was taken in between is news again when it is refused once more. What to do about it is the caller's.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final

from wakeful.errors import DataRefused

MOST: Final = 1000  # more than these are not remembered, and so told again


@dataclass(frozen=True, slots=True)
class Refusals:
    """What was refused last, by what it was about: a lane, a doubtful claim, a mark."""

    last: dict[Hashable, str] = field(default_factory=dict)

    def is_news(self, about: Hashable, error: DataRefused) -> bool:
        """Note a refusal; whether it was not the last one, too."""
        what = str(error).partition("\n")[0]  # the rest shows the row, whose times differ
        if self.last.get(about) == what:
            return False
        if len(self.last) >= MOST:
            self.last.clear()
        self.last[about] = what
        return True

    def taken(self, about: Hashable) -> None:
        """Note that it went through."""
        self.last.pop(about, None)
