"""Lines for a terminal, as spans of text with a tone, and how they become characters: colours, bars, marks, width.

Invariant: a text from outside is made visible here, so that nothing in it acts on the terminal, and a line that was
cut to a width takes no more columns than that. Where the lines go is `screen`'s.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final, Literal

from wakeful.cli.terminal import cut, visible, width_of

Tone = Literal["plain", "dim", "bold", "good", "warn", "bad"]
Mark = Literal["done", "running", "waiting", "failed", "pending"]

_CODES: Final = {"dim": "2", "bold": "1", "good": "32", "warn": "33", "bad": "31"}
_MARKS: Final[dict[Mark, tuple[str, str, Tone]]] = {
    "done": ("✓", "+", "good"),
    "running": ("▶", ">", "bold"),
    "waiting": ("◷", "~", "warn"),
    "failed": ("✗", "x", "bad"),
    "pending": ("·", ".", "dim"),
}
_BAR_COLUMNS: Final = 12
_WORD: Final = re.compile(r"\s*\S+\s*")


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a line; its text is safe to write. A `whole` one, such as a command, is never broken over lines."""

    text: str
    tone: Tone = "plain"
    whole: bool = False


Line = tuple[Span, ...]


def span(text: object, tone: Tone = "plain") -> Span:
    """Give a piece of a line from any text."""
    return Span(visible(text), tone)


def line(*pieces: object) -> Line:
    """Give a line of spans and of texts without a tone."""
    return tuple(piece if isinstance(piece, Span) else span(piece) for piece in pieces)


def whole(text: object) -> Span:
    """Give a piece that is for copying: a path, a command."""
    return Span(visible(text), whole=True)


def padded(piece: Span, columns: int) -> Span:
    """Give a span that takes this many columns, or more where its text does."""
    return Span(piece.text + " " * (columns - width_of(piece.text)), piece.tone)


def fitted(pieces: Line, columns: int) -> Line:
    """Cut a line to a number of columns."""
    kept: list[Span] = []
    left = columns
    for piece in pieces:
        if left <= 0:
            break
        shown = Span(cut(piece.text, left), piece.tone)
        left -= width_of(shown.text)
        kept.append(shown)
    return tuple(kept)


def wrapped(pieces: Line, columns: int) -> list[Line]:
    """Break a line at its spaces where it is longer than `columns`; what follows is indented like its text."""
    if columns_of(pieces) <= columns:
        return [pieces]
    hang = min(_hang(pieces), columns // 3)
    lines: list[list[Span]] = [[]]
    left = columns
    for word in _words(pieces):
        is_too_long = width_of(word.text.rstrip()) > left < columns - hang
        if is_too_long:
            lines.append([Span(" " * hang)])
            left = columns - hang
        lines[-1].append(replace(word, text=word.text.lstrip()) if is_too_long else word)
        left -= width_of(lines[-1][-1].text)
    return [tuple(one) for one in lines]


def columns_of(pieces: Iterable[Span]) -> int:
    """Columns that a line takes."""
    return sum(width_of(piece.text) for piece in pieces)


def _hang(pieces: Line) -> int:
    """Columns of the label or head that a line begins with: its first pieces that end in a space."""
    return max(2, columns_of(takewhile(lambda piece: piece.text.endswith(" "), pieces)))


def _words(pieces: Line) -> Iterator[Span]:
    for piece in pieces:
        if piece.whole or not piece.text.strip():
            yield piece
        else:
            yield from (Span(word, piece.tone) for word in _WORD.findall(piece.text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """What the terminal can show."""

    colours: bool
    symbols: bool

    def render(self, pieces: Line) -> str:
        """Give a line as the characters to write."""
        return "".join(self._painted(piece) for piece in pieces).rstrip()

    def mark(self, what: Mark) -> Span:
        """Give the sign for a state."""
        symbol, letter, tone = _MARKS[what]
        return Span(symbol if self.symbols else letter, tone)

    def bar(self, percent: float) -> Line:
        """Give a bar, and the number behind it."""
        full, empty = ("█", "░") if self.symbols else ("#", "-")
        columns = max(0, min(_BAR_COLUMNS, round(_BAR_COLUMNS * percent / 100)))
        return (
            Span(full * columns, "good"),
            Span(empty * (_BAR_COLUMNS - columns), "dim"),
            Span(f"{percent:4.0f} %"),
        )

    def _painted(self, piece: Span) -> str:
        code = _CODES.get(piece.tone) if self.colours and piece.text.strip() else None
        return piece.text if code is None else f"\x1b[{code}m{piece.text}\x1b[0m"
