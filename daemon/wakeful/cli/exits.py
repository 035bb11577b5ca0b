"""The exit codes of every command, and the failure that says why one is not 0.

They are part of the interface: scripts test them, so they keep their meaning.
"""

from __future__ import annotations

from typing import Final

from wakeful.errors import WakefulError

OK: Final = 0
FAILED: Final = 1  # it did not work, or is not there
USAGE: Final = 2  # the command line makes no sense; argparse's own code
CONFIG: Final = 78  # sysexits' EX_CONFIG: the configuration or the schema does not fit
INTERRUPTED: Final = 130  # Ctrl-C, as shells have it


class CommandFailed(WakefulError):
    """A command could not do what it was asked: what and why in `message`, what helps in `hint`."""

    def __init__(self, message: str, *, hint: str | None = None, code: int = FAILED) -> None:
        self.message = message
        self.hint = hint
        self.code = code
        super().__init__(message)
