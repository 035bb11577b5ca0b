"""What a process of handlers prints, as lines for the log.

Invariant: no more is read than a log can take, so that a process which prints without end waits, and the daemon's loop
does not. A line is bounded, and clean. It belongs to the attempt during which it was printed, and is said in that
one's context, where its secrets are hidden; or it belongs to nobody, and is only counted where secrets have been.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import struct
import termios
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Final

from wakeful.core.text import clean

LINE_LIMIT_BYTES: Final = 4096
READ_BYTES: Final = 64 * 1024
LINES_A_TURN: Final = 100
TURN_SECONDS: Final = 0.05
LAST_LINES: Final = 400

_UNCLAIMED: Final = logging.getLogger("wakeful.output")
_SIZE: Final = struct.Struct("i")


class Output:
    """The reading end of a pipe. Made on the loop that reads it; until it is claimed its lines are nobody's.

    `is_hushed`: an attempt with secrets has been here, and what is nobody's may be that one's.
    """

    __slots__ = ("_descriptor", "_in_long", "_left", "_loop", "_open", "_say", "_withheld", "is_hushed")

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self.is_hushed = False
        self._say: Callable[[str], None] = self._say_unclaimed
        self._withheld = 0
        self._descriptor = descriptor
        self._left = b""
        self._in_long = False
        self._open = True
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(descriptor, self._turn)

    def claim(self, say: Callable[[str], None]) -> None:
        """What is printed from now on is for `say`, in the context of this call; what was printed before is not."""
        self.settle()
        context = copy_context()
        self._say = lambda line: context.run(say, line)

    def settle(self) -> None:
        """Say at once what was printed until now, up to a bound; what is printed from now on is nobody's."""
        self._drain()
        self._say = self._say_unclaimed
        self._tell_withheld()

    def close(self) -> None:
        """Say what is left, up to a bound, and read no more."""
        if self._open:
            self._drain()
            self._tell_withheld()
            self._stop()

    def withhold(self) -> None:
        """Count a line that may hold the secrets of an attempt which is over."""
        self._withheld += 1

    def _drain(self) -> None:
        """Take all that is there in one step: nothing of it can become another's."""
        lines = [line for line in self._all_there().split(b"\n") if line.strip()]
        if len(lines) > LAST_LINES:
            self._say(f"{len(lines) - LAST_LINES} printed lines are left out here: they came too fast")
        for line in lines[-LAST_LINES:]:
            self._say_line(line)

    def _all_there(self) -> bytes:
        """What was read and not said, and what is in the pipe now: who goes on printing makes it no longer."""
        found, self._left = [self._left], b""
        left = self._in_pipe() if self._open else 0
        while left > 0 and (part := os.read(self._descriptor, left)):
            found.append(part)
            left -= len(part)
        there = b"".join(found)
        if self._in_long:
            self._in_long, there = False, there.partition(b"\n")[2]
        return there

    def _in_pipe(self) -> int:
        size: int = _SIZE.unpack(fcntl.ioctl(self._descriptor, termios.FIONREAD, bytes(_SIZE.size)))[0]
        return size

    def _say_unclaimed(self, line: str) -> None:
        if self.is_hushed:
            self.withhold()
        else:  # in a context of its own: whoever claims next has not said it
            Context().run(_UNCLAIMED.info, "%s", clean(line, LINE_LIMIT_BYTES))

    def _tell_withheld(self) -> None:
        count, self._withheld = self._withheld, 0
        if count:
            text = "lines said after the end of attempts are not shown: secrets of theirs may be in them"
            Context().run(_UNCLAIMED.warning, "%s %s", count, text)

    def _turn(self) -> None:
        """Read a little, say a little, and rest a little."""
        self._loop.remove_reader(self._descriptor)
        self._rest()
        if len(self._left) < READ_BYTES and not self._read():
            self.close()
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
        if lines and self._in_long:
            self._in_long = False
            del lines[0]
        for line in lines:
            self._say_line(line)
        if b"\n" not in self._left:
            self._bound_line()

    def _bound_line(self) -> None:
        """Say the beginning of a line that is too long; its rest is dropped, as a secret may lie across the cut."""
        if not self._in_long and len(self._left) > 2 * LINE_LIMIT_BYTES:
            self._say_line(self._left)
            self._in_long = True
        if self._in_long:
            self._left = b""

    def _say_line(self, line: bytes) -> None:
        # Twice what is shown: secrets are hidden before it is cut.
        given = line[: 2 * LINE_LIMIT_BYTES].decode("utf-8", "replace").rstrip()
        if text := clean(given, 2 * LINE_LIMIT_BYTES):
            self._say(text)
