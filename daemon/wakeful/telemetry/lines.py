"""How a log line looks: JSON for machines, text for people; safe whatever was logged.

Invariant: one call gives one line (the text form adds indented ones below it for a traceback or a stack),
never raises, and its size is bounded. No text of a user ends a line, begins one, or reaches a terminal as a
control sequence; JSON stays exact, since what is escaped there are characters inside of its strings. Secrets
are hidden before anything is cut.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from itertools import islice
from json.encoder import encode_basestring
from types import NoneType
from typing import Any, Final
from uuid import UUID

from wakeful.core.text import clean
from wakeful.telemetry.events import EVENTS
from wakeful.telemetry.redaction import HIDDEN, Redactor

TEXT_LIMIT_BYTES: Final = 16 * 1024
SIMPLE_LENGTH: Final = 4096
MOST_ENTRIES: Final = 100
DEEPEST: Final = 10
BLOCKS: Final = ("exception", "stack")  # shown below the line in the text form
HEAD: Final = ("timestamp", "level", "event", "logger")

_INTEGER_BITS: Final = 1024
_COLOURS: Final = {"debug": "2", "info": "32", "warning": "33", "error": "31", "critical": "1;31"}
# C0 and C1 controls, line and paragraph separators, marks that reorder a line (bidi), BOM, lone surrogates.
_UNSAFE: Final = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff"
_ONE_BYTE: Final = 256
_HUGE: Final = 2**64
_UNICODE: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_ASCII: Final = json.JSONEncoder(allow_nan=False)
_PREFIXES: Final[Mapping[str, str]] = {
    name: f', "{name}": ' for event in EVENTS for name in event.fields if name not in HEAD
}
_UNSAFE_CHARACTER: Final = re.compile(f"[{_UNSAFE}]")
_PLAIN_WORD: Final = re.compile(f"[^\\s\"'={_UNSAFE}]+")


def _prefix(name: object) -> str:
    if type(name) is not str or name in HEAD:
        raise ValueError
    return f", {encode_basestring(name)}: "


def _integer(value: int) -> str:
    if not -_HUGE < value < _HUGE:
        raise ValueError
    return int.__repr__(value)


def _number(value: float) -> str:
    if not math.isfinite(value):
        raise ValueError
    return float.__repr__(value)


def _identifier(value: object) -> str:
    if not isinstance(value, UUID):  # a driver's is of a class of its own
        raise ValueError
    return f'"{value}"'


# By the very type: a subclass may show itself in a way of its own. `encode_basestring` is what json's encoder uses.
_SIMPLE: Final[Mapping[type, Callable[[Any], str]]] = {
    str: encode_basestring,
    int: _integer,
    float: _number,
    bool: lambda value: "true" if value else "false",
    NoneType: lambda _: "null",
}


def plain(value: object, redactor: Redactor, depth: int = 0) -> object:
    """Give any value as one that JSON can hold: bounded, clean, without secrets."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _plain_text(redactor.text(str.__str__(value)))
    if isinstance(value, int) and value.bit_length() <= _INTEGER_BITS:
        return HIDDEN if redactor.hides(int(value)) else int(value)
    if isinstance(value, float) and math.isfinite(value):
        return HIDDEN if redactor.hides(float(value)) else float(value)
    if isinstance(value, Mapping | list | tuple | set | frozenset) and depth < DEEPEST:
        return _plain_entries(value, redactor, depth + 1)
    if isinstance(value, datetime):
        return value.isoformat()
    return clean(redactor.text(clean(value, 4 * TEXT_LIMIT_BYTES)), TEXT_LIMIT_BYTES)


def to_json(line: Mapping[str, object], *, ascii_only: bool = False) -> str:
    """Give a line of plain values as one line of JSON, without the line's end."""
    text = (_ASCII if ascii_only else _UNICODE).encode(line)
    if text.isascii() and "\x7f" not in text:
        return text
    return _UNSAFE_CHARACTER.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def simple_json(head: str, fields: Mapping[str, object], redactor: Redactor) -> str | None:
    """Give the line that `plain` and `to_json` would give; None if it is not that simple.

    `head` is what stands before the fields. Of each attempt at least one line is written, and nearly all hold nothing
    but short ASCII texts and numbers. They are joined first, and looked at once: where nothing had to be escaped, each
    text stands in the line as it is, so that what is not found in the line is in none of them (ADR 0031).
    """
    line = head
    try:
        for key, value in fields.items():
            prefix = _PREFIXES.get(key) or _prefix(key)
            if type(value) is str:  # most are: one call less for each
                line += prefix + encode_basestring(value)
            else:
                line += prefix + _SIMPLE.get(type(value), _identifier)(value)
    except ValueError:  # a name or a value that is not simple
        return None
    is_simple = len(line) <= SIMPLE_LENGTH and line.isascii() and "\\" not in line and "\x7f" not in line
    return line + "}" if is_simple and not redactor.may_touch(line) else None


def to_text(line: Mapping[str, object], *, coloured: bool) -> str:
    """Give a line of plain values as text: time, level, event, fields; a traceback or a stack below it."""
    level = str(line.get("level", "info"))
    at = str(line.get("timestamp", ""))
    words = [_local_time(at), _paint(f"{level:<8}", _COLOURS.get(level, "0"), coloured=coloured)]
    words.append(_paint(_shown(line.get("event", "")), "1", coloured=coloured))
    words += [
        f"{_paint(_word(key), '36', coloured=coloured)}={_word(value)}"
        for key, value in line.items()
        if key not in HEAD and key not in BLOCKS
    ]
    blocks = [part for key in BLOCKS if key in line for part in str(line[key]).splitlines()]
    return "\n".join([" ".join(words), *(f"    | {_shown(part)}" for part in blocks)])


def message_of(event: str, fields: Mapping[str, object]) -> str:
    """Give an event and its plain fields as one short text: `fetched pages=4`."""
    return " ".join([_shown(event), *(f"{_word(key)}={_word(value)}" for key, value in fields.items())])


def _plain_text(text: str) -> str:
    if text.isascii() and len(text) <= TEXT_LIMIT_BYTES and "\x00" not in text:
        return text  # most are like this, and every attempt logs a dozen of them
    return clean(text, TEXT_LIMIT_BYTES)


def _plain_entries(value: object, redactor: Redactor, depth: int) -> object:
    try:
        if isinstance(value, Mapping):
            some = islice(value.items(), MOST_ENTRIES)
            return {
                clean(redactor.text(clean(key, 200)), 200): plain(part, redactor, depth) for key, part in some
            }
        assert isinstance(value, Iterable)
        return [plain(part, redactor, depth) for part in islice(value, MOST_ENTRIES)]
    except Exception:  # noqa: BLE001 - a user's own collection, or one that another thread changes
        return f"<{type(value).__name__} that can't be shown>"


def _local_time(timestamp: str) -> str:
    try:
        return datetime.fromisoformat(timestamp).astimezone().strftime("%H:%M:%S.%f")[:-3]
    except ValueError:
        return datetime.now(UTC).astimezone().strftime("%H:%M:%S.%f")[:-3]


def _word(value: object) -> str:
    """Give a value as one word, quoted where it would be taken for more than one."""
    if not isinstance(value, str):
        return _shown(json.dumps(value, ensure_ascii=False, default=str))
    if _PLAIN_WORD.fullmatch(value):
        return value
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{_shown(quoted)}"'


def _shown(value: object) -> str:
    return _UNSAFE_CHARACTER.sub(_escape, value if isinstance(value, str) else str(value))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return {9: "\\t", 10: "\\n", 13: "\\r"}.get(
        code, f"\\x{code:02x}" if code < _ONE_BYTE else f"\\u{code:04x}"
    )


def _paint(text: str, colour: str, *, coloured: bool) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m" if coloured else text
