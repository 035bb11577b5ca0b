"""Writes log lines to a stream whose reader may have stopped reading: a pipe that is full holds nobody up for long.

Invariant: a line waits for room for a moment at most, and for none at all while the reader has not come back; what is
dropped meanwhile is counted. A slow reader gets every line. What a line looks like is for `lines` to say.
"""

from __future__ import annotations

import os
import select
import stat
from typing import Final, TextIO

PATIENCE_SECONDS: Final = 0.5
_PATIENCE_MILLISECONDS: Final = round(PATIENCE_SECONDS * 1000)
# What a pipe that has any room takes at once, in characters of up to four bytes.
_CHUNK: Final = select.PIPE_BUF // 4


class LineWriter:
    """One stream. Not thread-safe: a logging handler has a lock."""

    __slots__ = ("_begun", "_poll", "_stream", "_stuck", "dropped")

    def __init__(self, stream: TextIO) -> None:
        self.dropped = 0
        self._stream = stream
        self._poll = _poll_of(stream)
        self._stuck = False
        self._begun = False

    def write(self, line: str) -> bool:
        """Write a line; False where there was no room for it. Raises what the stream does."""
        if self._poll is None:
            self._put(line + "\n")
            return True
        text = f"\n{line}\n" if self._begun else f"{line}\n"
        for start in range(0, len(text), _CHUNK):
            self._stuck = not self._poll.poll(0 if self._stuck else _PATIENCE_MILLISECONDS)
            if self._stuck:
                self._begun = self._begun or start > 0
                self.dropped += 1
                return False
            self._put(text[start : start + _CHUNK])
        self._begun = False
        return True

    def _put(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def _poll_of(stream: TextIO) -> select.poll | None:
    """Give what says whether the stream has room; None for what always has, such as a file."""
    try:
        descriptor = stream.fileno()
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
    except (AttributeError, OSError, ValueError):
        return None
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return poll
