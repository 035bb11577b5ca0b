"""Text for people and JSON for programs, safe to show whatever jobs are called and say.

Invariant: no character of a user's text moves a cursor, colours, reorders or ends a line: what would is shown as an
escape. In JSON the same characters are escaped inside of strings, so that a program reads exactly what is stored.
"""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Final

from wakeful.cli.exits import CommandFailed
from wakeful.core import jsontext

# C0 and C1 controls, line and paragraph separators, marks that reorder a line (bidi), BOM, lone surrogates.
_UNSAFE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_NAMED: Final = {9: "\\t", 10: "\\n", 13: "\\r"}
_GAP: Final = "  "
_NARROWEST_LAST_COLUMN: Final = 12
_AGES: Final = (("d", 86400.0), ("h", 3600.0), ("m", 60.0))


def visible(text: object) -> str:
    """Give a text as one line in which nothing acts on a terminal."""
    return _UNSAFE.sub(_escape, str(text))


def block(text: str, indent: str = "    ") -> str:
    """Give a text of several lines, each made visible and indented."""
    return "\n".join(f"{indent}{visible(line)}" for line in text.splitlines())


def to_json(value: object) -> str:
    """Give a value (of `core.jsontext`) as one line of JSON."""
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", jsontext.dumps(value))


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, width: int | None) -> list[str]:
    """Give lines of aligned columns; where a `width` is given, the last column is cut so that lines fit into it."""
    cells = [tuple(headings), *(tuple(visible(cell) for cell in row) for row in rows)]
    widths = [max(width_of(row[column]) for row in cells) for column in range(len(headings) - 1)]
    room = None if width is None else width - sum(widths) - len(_GAP) * len(widths)
    return [_line(row, widths, room) for row in cells]


def age(seconds: float | None) -> str:
    """Give a time span as people say it: 45s, 12m, 3h, 9d."""
    if seconds is None:
        return ""
    for unit, size in _AGES:
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


def moment(at: datetime | None) -> str:
    """Give a time in the time zone of whoever reads it."""
    return "" if at is None else at.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")


def stored_moment(at: object) -> str:
    """Give a time that a stored document holds as text in the same way; what is no time stays as it is."""
    try:
        return moment(datetime.fromisoformat(str(at)))
    except ValueError:
        return visible(at)


def show(text: object) -> None:
    """Write a result to standard output. Raises CommandFailed where it can't be, BrokenPipeError where nobody reads."""
    with _written():
        sys.stdout.write(f"{text}\n")


def finish() -> None:
    """Let everything that was shown be written. Raises what `show` raises."""
    with _written(), suppress(AttributeError, ValueError):  # a handler may have taken or closed it
        sys.stdout.flush()


def forget() -> None:
    """Let what the interpreter would still write at its end go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _written() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        forget()
        raise CommandFailed(f"the result can't be written to standard output: {error.strerror}") from None


def say(text: str) -> None:
    """Write a line that is no result to standard error."""
    sys.stderr.write(f"{text}\n")


def cut(text: str, width: int) -> str:
    """Give a text that takes at most so many columns; where some of it is left out, it ends in "…"."""
    if width_of(text) <= width:
        return text
    kept = ""
    for character in text:
        if width_of(kept + character) > width - 1:
            break
        kept += character
    return f"{kept}…"


def width_of(text: str) -> int:
    """Columns of a terminal that a text takes: wide characters two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1
        for one in text
    )


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return _NAMED.get(code, f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


def _line(row: Sequence[str], widths: Sequence[int], room: int | None) -> str:
    *cells, last = row
    padded = [cell + " " * (width - width_of(cell)) for cell, width in zip(cells, widths, strict=True)]
    shown = last if room is None else cut(last, max(room, _NARROWEST_LAST_COLUMN))
    return _GAP.join([*padded, shown]).rstrip()
