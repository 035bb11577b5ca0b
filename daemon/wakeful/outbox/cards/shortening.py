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
_MARKS: Final = frozenset({"Mn", "Mc", "Me"})
_VIRAMA: Final = 9  # the combining class of what makes one of two letters in scripts of India


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """How much a message may say: characters of a text, entries of a list, and characters of all its lines together."""

    text: int
    entries: int
    lines: int = 100_000


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
    while 0 < at < len(text) and _is_inside(text, at):
        at -= 1
    return at


def _is_inside(text: str, at: int) -> bool:
    before, after = text[at - 1], text[at]
    return (
        _continues(after)
        or before == _JOINER
        or unicodedata.combining(before) == _VIRAMA
        or (_is_lead(before) and (_is_lead(after) or "\uac00" <= after <= "\ud7a3"))
        or (_is_half_of_flag(after) and _halves_before(text, at) % 2 == 1)
    )


def _continues(character: str) -> bool:
    """Whether it belongs to the character before it: accents, vowels, what changes an emoji, ends of Hangul."""
    return (
        unicodedata.category(character) in _MARKS
        or character in (_JOINER, "\u200c", "\u0e33", "\u0eb3")
        or "\U0001f3fb" <= character <= "\U0001f3ff"
        or "\U000e0020" <= character <= "\U000e007f"
        or "\u1160" <= character <= "\u11ff"
        or "\ud7b0" <= character <= "\ud7fb"
    )


def _is_lead(character: str) -> bool:
    return "\u1100" <= character <= "\u115f" or "\ua960" <= character <= "\ua97c"


def _is_half_of_flag(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _halves_before(text: str, at: int) -> int:
    start = at
    while start > 0 and _is_half_of_flag(text[start - 1]):
        start -= 1
    return at - start
