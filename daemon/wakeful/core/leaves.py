"""One written value as the type that a setting has: a text, a number, a duration, a list, a choice.

Invariant: a ValueError says what is wanted, in the words of the file, and shows the value unless it is a
secret. A text from the environment and the same thing from TOML give the same value; bounds are in
`core.rules`.
"""

from __future__ import annotations

import re
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

from wakeful.core.durations import parse_duration
from wakeful.core.rules import check_bounds

_TRUE: Final = frozenset({"true", "yes", "on", "1"})
_FALSE: Final = frozenset({"false", "no", "off", "0"})
_INTEGER: Final = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_MOST: Final = 10**18  # as many digits as a text may have
_SHOWN_CHARACTERS: Final = 60


def decode_leaf(dotted: str, hint: Any, value: object, *, secret: bool) -> object:
    """Give `value` as the type `hint`, within the bounds of the setting `dotted`. Raises ValueError."""
    kind = get_origin(hint)
    if kind in (Union, UnionType):
        hint = next(option for option in get_args(hint) if option is not NoneType)
        kind = get_origin(hint)
    if kind is Literal:
        return _choice(get_args(hint), value)
    if kind is tuple:
        return _texts(value)
    if hint is bool:
        return _switch(value)
    if hint is str:
        text = _text(value, secret=secret)
        if not dotted.endswith("_file") and not _is_utf8(text):  # a file may be named by any bytes
            raise ValueError("the text is not UTF-8")
        return text
    number = _integer(value) if hint is int else parse_duration(value)
    check_bounds(dotted, number)
    return number


def _choice(options: tuple[str, ...], value: object) -> str:
    if isinstance(value, str) and value.lower() in options:
        return value.lower()
    raise ValueError(f"{_shown(value)} is not one of {', '.join(options)}")


def _texts(value: object) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise ValueError(f'{_shown(value)} is not a list of texts: write ["a", "b"], or a,b in a variable')
    stripped = tuple(part.strip() for part in parts)
    if "" in stripped:
        raise ValueError(f"{_shown(value)} has an empty part")
    if not all(map(_is_utf8, stripped)):
        raise ValueError("a part is not UTF-8")
    return stripped


def _switch(value: object) -> bool:
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else ""
    if word not in _TRUE | _FALSE:
        raise ValueError(f"{_shown(value)} is not true or false")
    return word in _TRUE


def _text(value: object, *, secret: bool) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{'the value' if secret else _shown(value)} is not a text in quotes")
    if "\x00" in value:
        raise ValueError("the text has a NUL character in it")
    return value


def _is_utf8(value: str) -> bool:
    return not any("\ud800" <= one <= "\udfff" for one in value)


def _integer(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        if abs(value) >= _MOST:
            raise ValueError("a whole number has at most 18 digits")
        return value
    if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
        return int(value)
    raise ValueError(f"{_shown(value)} is not a whole number")


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:
        return "a number of so many digits"  # more than Python prints
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 3]}..."
