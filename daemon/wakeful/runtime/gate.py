"""Whether this process may work on this database at all: closed until its identity was looked at.

The claimer reads it before each claim; `runtime.identity` opens and closes it.
"""

from __future__ import annotations

from collections.abc import Callable


class Gate:
    """Closed at first. Used on the event loop only. `on_opened` is called each time that it opens."""

    __slots__ = ("_on_opened", "_open")

    def __init__(self, on_opened: Callable[[], None] = lambda: None) -> None:
        self._open = False
        self._on_opened = on_opened

    @property
    def open(self) -> bool:
        """Whether jobs may be claimed."""
        return self._open

    def let_through(self) -> None:
        """Open it: this is the database that we belong to."""
        was, self._open = self._open, True
        if not was:
            self._on_opened()

    def close(self) -> None:
        """Let nothing more through."""
        self._open = False
