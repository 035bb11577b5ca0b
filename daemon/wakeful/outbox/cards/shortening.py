"""Shortening: texts and whole messages to what a receiver takes, with a mark that shows it.

Invariant: a cut is between two characters as people see them, never inside a surrogate pair or before an accent; what
is escaped is cut before it is escaped. Sizes are of the worst encoding that a receiver may count in.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

MARK: Final = " …[cut]"

_JOINER: Final = "\u200d"


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """How much a message may say: characters of a text, and entries of a list."""

    text: int
    entries: int


ROOMS: Final = tuple(
    Room(text=text, entries=entries)
    for text, entries in (
        (3000, 20),
        (2000, 15),
        (1300, 10),
        (900, 10),
        (600, 8),
        (400, 5),
        (250, 3),
        (150, 2),
        (90, 1),
        (50, 0),
    )
)


def cut(text: str, most: int, *, size: Callable[[str], int] = len) -> str:
    """Give `text`, or the longest beginning that has with its mark at most the `size` of `most`.

    `size` is that of what is sent, such as the escaped text; a longer text never has a smaller one.
    """
    if len(text) <= most and size(text) <= most:
        return text
    low, high = 0, min(len(text), most)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if size(text[:middle] + MARK) <= most else (low, middle - 1)
    return text[: _seam(text, low)].rstrip() + MARK if size(MARK) <= most else ""


def utf16_units(text: str) -> int:
    """Count as JavaScript and C# do: a character beyond the first 65,536 is two."""
    return len(text.encode("utf-16-le", errors="surrogatepass")) // 2


def encoded(document: Mapping[str, object]) -> bytes:
    """Give a document as compact JSON in UTF-8, the same bytes each time."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-8")


def worst_size(body: bytes) -> int:
    """Give the bytes of a text as UTF-8 or as UTF-16, whichever is more."""
    return max(len(body), 2 * utf16_units(body.decode("utf-8")))


def fitting(build: Callable[[Room], Mapping[str, object]], *, most: int) -> bytes:
    """Build the document with as much room as lets it stay within `most` bytes; the last is sent whatever its size."""
    body = b""
    for room in ROOMS:
        body = encoded(build(room))
        if worst_size(body) <= most:
            break
    return body


def _seam(text: str, at: int) -> int:
    """Give the nearest place at or before `at` where what people see as one character is not cut in two."""
    while 0 < at < len(text) and (_joins(text[at]) or text[at - 1] == _JOINER):
        at -= 1
    return at


def _joins(character: str) -> bool:
    return (
        character == _JOINER
        or "\ufe00" <= character <= "\ufe0f"
        or "\U0001f3fb" <= character <= "\U0001f3ff"
        or unicodedata.combining(character) != 0
        or "\u1160" <= character <= "\u11ff"  # vowels and finals of Korean that is written in parts
    )
