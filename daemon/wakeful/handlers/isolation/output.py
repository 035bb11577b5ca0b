"""What a process of handlers prints, as lines for the log.

Invariant: no more is read than a log can take, so that a process which prints without end waits, and the daemon's loop
does not. A line is bounded, and clean. Whose line it is says `say`, which the attempt that runs there puts in.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Final

from wakeful.core.text import clean

LINE_LIMIT_BYTES: Final = 4096
READ_BYTES: Final = 64 * 1024
LINES_A_TURN: Final = 100
TURN_SECONDS: Final = 0.05
LAST_TURNS: Final = 4

_UNCLAIMED: Final = logging.getLogger("wakeful.output")


def say_unclaimed(line: str) -> None:
    """Log a line that belongs to no attempt."""
    _UNCLAIMED.info("%s", line)


class Output:
    """The reading end of a pipe. Made on the loop that reads it; `say` is called with each line."""

    __slots__ = ("_descriptor", "_left", "_loop", "_open", "say")

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self.say: Callable[[str], None] = say_unclaimed
        self._descriptor = descriptor
        self._left = b""
        self._open = True
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(descriptor, self._turn)

    def catch_up(self) -> None:
        """Say at once what is there, up to a bound."""
        for _ in range(LAST_TURNS if self._open else 0):
            self._read()
            self._say_lines()

    def close(self) -> None:
        """Say what is left, up to a bound, and read no more."""
        if not self._open:
            return
        self.catch_up()
        if self._left:
            self._say_line(self._left)
        self._stop()

    def _turn(self) -> None:
        """Read a little, say a little, and rest a little."""
        self._loop.remove_reader(self._descriptor)
        self._rest()
        if len(self._left) < READ_BYTES and not self._read():
            self._stop()
        self._say_lines()

    def _rest(self) -> None:
        self._loop.call_later(TURN_SECONDS, self._resume)

    def _resume(self) -> None:
        if not self._open:
            return
        if b"\n" in self._left:  # there is more to say before more is read
            self._say_lines()
            self._rest()
        else:
            self._loop.add_reader(self._descriptor, self._turn)

    def _read(self) -> bool:
        """Read what is there; False at the end."""
        try:
            found = os.read(self._descriptor, READ_BYTES)
        except BlockingIOError:
            return True
        self._left += found
        return bool(found)

    def _stop(self) -> None:
        self._open = False
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)

    def _say_lines(self) -> None:
        *lines, self._left = self._left.split(b"\n", LINES_A_TURN)
        for line in lines:
            self._say_line(line)
        if len(self._left) > LINE_LIMIT_BYTES and b"\n" not in self._left:
            self._say_line(self._left)
            self._left = b""

    def _say_line(self, line: bytes) -> None:
        text = clean(line[: 2 * LINE_LIMIT_BYTES].decode("utf-8", "replace").rstrip(), LINE_LIMIT_BYTES)
        if text:
            self.say(text)
