"""What goes between the daemon and a process of handlers: JSON objects, each with its length before it.

Invariant: no frame is longer than `FRAME_LIMIT_BYTES`, and what is no frame raises `GarbageFrame` and nothing else: the
other side runs anybody's code. A read that is cancelled loses nothing. What frames mean is for `carrying` and `child`.
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Mapping
from typing import Any, Final

# A payload or result of 1 MiB takes up to three times as much when it is written in ASCII.
FRAME_LIMIT_BYTES: Final = 8 * 1024 * 1024

_HEADER: Final = struct.Struct(">I")

Frame = Mapping[str, Any]


class GarbageFrame(Exception):
    """The other side sent something that is no frame, or not the one that belongs here."""


def encode(frame: Frame) -> bytes:
    """Give a frame as bytes; raises ValueError where it is too long."""
    # In ASCII, so that a lone surrogate passes, too: texts are cleaned where they are stored.
    body = json.dumps(frame).encode("ascii")
    if len(body) > FRAME_LIMIT_BYTES:
        raise ValueError(f"a message of {len(body)} bytes is more than {FRAME_LIMIT_BYTES}")
    return _HEADER.pack(len(body)) + body


class FrameReader:
    """The frames of one connection, one after the other; `read_bytes` is how much they were so far."""

    __slots__ = ("_reader", "_size", "read_bytes")

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self.read_bytes = 0
        self._reader = reader
        self._size: int | None = None

    async def read(self) -> Frame | None:
        """Give the next frame, None at the end. Raises GarbageFrame."""
        try:
            if self._size is None:
                size = _HEADER.unpack(await self._reader.readexactly(_HEADER.size))[0]
                if size > FRAME_LIMIT_BYTES:
                    raise GarbageFrame(f"a message that says to have {size} bytes")
                self._size = size
            body = await self._reader.readexactly(self._size)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        self._size = None
        self.read_bytes += len(body)
        return decode(body)


def decode(body: bytes) -> Frame:
    """Give the frame that is in `body`; raises GarbageFrame."""
    try:
        frame = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise GarbageFrame(f"a message that is no JSON ({type(error).__name__})") from None
    if not isinstance(frame, dict) or not isinstance(frame.get("do"), str):
        raise GarbageFrame("a message that does not say what it is")
    return frame


def text_of(frame: Frame, name: str) -> str:
    """Give a text of a frame; raises GarbageFrame."""
    value = frame.get(name)
    if not isinstance(value, str):
        raise GarbageFrame(f"{frame['do']!r} without a text {name!r}")
    return value


def optional_text_of(frame: Frame, name: str) -> str | None:
    """Give a text of a frame that may be missing; raises GarbageFrame."""
    return None if frame.get(name) is None else text_of(frame, name)


def number_of(frame: Frame, name: str) -> float:
    """Give a number of a frame; raises GarbageFrame."""
    value = frame.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise GarbageFrame(f"{frame['do']!r} without a number {name!r}")
    return value
