"""The end of a forked copy: a handler that forks makes a second daemon, unless its copy ends where the handler does.

Invariant: where a handler's call ends in another process than it began in, that process ends at once, as its handler
would have ended it: nothing of the daemon's runs there, and nothing is written on connections that both have.
"""

from __future__ import annotations

import os
from typing import Final

FAILED: Final = 1


class Forks:
    """How often this process was copied by a fork on the way from the first one: nothing at all to ask for."""

    __slots__ = ("generation",)

    def __init__(self) -> None:
        self.generation = 0
        os.register_at_fork(after_in_child=self._copied)

    def _copied(self) -> None:
        self.generation += 1


# What a process is changes by a fork only, which is when this does. To ask the kernel for the pid instead, before and
# after each call, was 2 % of all the time that a job without work takes.
FORKS: Final = Forks()


def end_if_copy(born: int, raised: BaseException | None) -> None:
    """End this process where the call began in another, of generation `born`; `raised` is what ended the call."""
    if FORKS.generation != born:
        os._exit(_exit_code(raised))


def _exit_code(raised: BaseException | None) -> int:
    """Give what the interpreter would have: a copy that was told to `sys.exit()` ends with that code."""
    if raised is None:
        return 0
    if isinstance(raised, SystemExit) and (raised.code is None or isinstance(raised.code, int)):
        return (raised.code or 0) & 0xFF
    os.write(
        2,
        f"wakeful: a forked copy of a handler ended with {type(raised).__name__}\n".encode(
            "ascii", "replace"
        ),
    )
    return FAILED
