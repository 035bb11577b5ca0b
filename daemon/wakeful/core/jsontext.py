"""JSON text in and out with exact numbers: what PostgreSQL's jsonb holds is what a handler sees, digit by digit.

Invariant: `dumps` gives only text that jsonb accepts, and what `loads` gives is written again with the same digits
(a Decimal may come back as the float that is written like it); both raise ValueError and nothing else for what can't
be carried, `dumps` with the path of the culprit (``$.items[3].name``).
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal, InvalidOperation
from typing import Final

import simplejson

from wakeful.core.text import clean

# PostgreSQL's numeric: digits before and after the point.
_DIGITS_BEFORE_POINT: Final = 131072
_DIGITS_AFTER_POINT: Final = 16383
_TOO_DEEP: Final = "nested too deeply"


def loads(text: str) -> object:
    """Decode JSON text: int exact, float where its repr is the same number, else Decimal. Raises ValueError."""
    try:
        try:
            value, end = _scan(text, 0)
            if end == len(text):
                return value
        except (StopIteration, ValueError):
            pass  # white space round it, an integer beyond what int() takes, or no JSON: the exact way knows
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError(f"$: {_TOO_DEEP}") from None


def dumps(value: object) -> str:
    """Encode as compact JSON: dict, list, tuple, str, int, float, Decimal, bool, None. Raises ValueError."""
    try:
        text = _encode_plain(value)
        return _encode_exact(value) if text is None else text
    except RecursionError:
        raise ValueError(f"$: {_TOO_DEEP}") from None


def check_size(text: str, limit_bytes: int, what: str) -> None:
    """Raise ValueError where JSON text is more than `limit_bytes` bytes of UTF-8; `what` names it ("the result").

    Measured as PostgreSQL writes jsonb, with a blank after each comma and colon: what passes here passes there.
    """
    if len(text) * 4 <= limit_bytes:
        return
    size = len(text.encode("utf-8")) + text.count(",") + text.count(":")
    if size > limit_bytes:
        raise ValueError(f"{what} is {size} bytes long; at most {limit_bytes} are allowed")


def _exact_float(digits: str) -> float | Decimal:
    nearest = float(digits)
    try:
        exact = Decimal(digits)
    except InvalidOperation:
        raise ValueError("a number with an exponent that no Decimal holds") from None
    return nearest if math.isfinite(nearest) and Decimal(repr(nearest)) == exact else exact


def _exact_int(digits: str) -> int | Decimal:
    try:
        return int(digits)
    except ValueError:  # more digits than Python converts (4300): Decimal has no such limit
        return Decimal(digits)


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(
    parse_float=_exact_float, parse_int=_exact_int, parse_constant=_refuse_constant
)
# The same for nearly every text, at half the cost: integers are read in C.
_scan: Final[Callable[[str, int], tuple[object, int]]] = json.JSONDecoder(
    parse_float=_exact_float, parse_constant=_refuse_constant
).scan_once  # type: ignore[attr-defined]
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _encode_plain(value: object) -> str | None:
    """The common case, all in C; None where the value needs a closer look."""
    try:
        text = _ENCODER.encode(value)
        text.encode("utf-8")
    except (TypeError, ValueError):  # UnicodeEncodeError is a ValueError: a lone surrogate
        return None
    # An escaped NUL; an escaped backslash before "u0000" looks the same, and the closer look lets it pass.
    return None if "\\u0000" in text or not _has_text_keys(value) else text


def _has_text_keys(value: object) -> bool:
    # The encoder would turn 1, None and True into text silently. It has proved that there is no circle.
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if not all(isinstance(key, str) for key in node):
                return False
            waiting.extend(node.values())
        elif isinstance(node, list | tuple):
            waiting.extend(node)
    return True


def _encode_exact(value: object) -> str:
    problem = next(_problems(value, "$", frozenset()), None)
    if problem is not None:
        raise ValueError(problem)
    try:
        text: str = simplejson.dumps(
            value,
            ensure_ascii=False,
            allow_nan=False,
            separators=(",", ":"),
            use_decimal=True,
            namedtuple_as_object=False,
        )
    except (TypeError, ValueError) as error:
        raise ValueError(f"$: {error}") from error
    return text


def _problems(value: object, path: str, above: frozenset[int]) -> Iterator[str]:
    if isinstance(value, str):
        yield from (f"{path}: {problem}" for problem in _text_problems(value))
    elif value is None or isinstance(value, bool):
        return
    elif isinstance(value, int | float | Decimal):
        yield from (f"{path}: {problem}" for problem in _number_problems(value))
    elif isinstance(value, dict | list | tuple):
        if id(value) in above:
            yield f"{path}: contains itself"
            return
        yield from _member_problems(value, path, above | {id(value)})
    else:
        yield f"{path}: {clean(type(value).__name__, 100)} is not a JSON value"


def _member_problems(
    value: dict[object, object] | list[object] | tuple[object, ...], path: str, above: frozenset[int]
) -> Iterator[str]:
    if not isinstance(value, dict):
        for index, member in enumerate(value):
            yield from _problems(member, f"{path}[{index}]", above)
        return
    for key, member in value.items():
        if not isinstance(key, str):
            yield f"{path}: key {clean(_repr_of(key), 60)} is not a string"
            continue
        yield from (f"{path}: a key {problem}" for problem in _text_problems(key))
        yield from _problems(member, f"{path}.{clean(key, 60)}", above)


def _repr_of(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 -- a user's __repr__, or an int with too many digits
        return f"<{type(value).__name__}>"


def _text_problems(text: str) -> Iterator[str]:
    if "\x00" in text:
        yield "contains a NUL character, which PostgreSQL can't store"
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        yield f"contains a lone surrogate (U+{ord(text[error.start]):04X}), which is not valid Unicode"


def _number_problems(number: float | Decimal) -> Iterator[str]:
    if isinstance(number, int):
        digits = sys.get_int_max_str_digits()
        if digits and abs(number).bit_length() > digits * 3.33:
            yield f"an integer of more than {digits} digits; give it as a Decimal"
    elif isinstance(number, float):
        if not math.isfinite(number):
            yield f"{number} is not a JSON number"
    elif not number.is_finite():
        yield f"{number} is not a JSON number"
    elif _is_beyond_numeric(number):
        yield "a number beyond what PostgreSQL's numeric holds"


def _is_beyond_numeric(number: Decimal) -> bool:
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)  # a finite number
    return number.adjusted() >= _DIGITS_BEFORE_POINT or exponent < -_DIGITS_AFTER_POINT
