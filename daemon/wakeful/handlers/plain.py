"""Typed values back to JSON values: what a handler returns or enqueues becomes what `jsontext.dumps` takes.

Invariant: exact numbers stay exact, and what is no JSON and no known type is left as it is, so that `dumps` refuses it
with its path.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from enum import Enum
from pathlib import PurePath
from typing import Final
from uuid import UUID

from wakeful.core import jsontext
from wakeful.core.text import clean
from wakeful.handlers import records

PAYLOAD_LIMIT_BYTES: Final = 1024 * 1024
RESULT_LIMIT_BYTES: Final = 1024 * 1024

_REASON_BYTES: Final = 500


def encode(value: object, limit_bytes: int, what: str) -> str:
    """Give a value as JSON text of at most `limit_bytes`; raises ValueError naming `what` ("the result") and a path."""
    return _checked(lambda: _encode(value), limit_bytes, what)


def encode_object(value: object, limit_bytes: int, what: str) -> str:
    """Give a mapping, a typed record or None (an empty one) as the text of a JSON object; raises ValueError."""
    return _checked(lambda: _encode_object({} if value is None else value), limit_bytes, what)


def encode_result(value: object, limit_bytes: int = RESULT_LIMIT_BYTES) -> str:
    """Give what a handler returned as JSON text; raises ValueError saying why it can't be stored."""
    if value is None:
        return "null"
    return encode(value, limit_bytes, "the result")


def plain(value: object) -> object:
    """Give dataclasses, structs, models, enums, times, UUIDs, sets and paths as JSON values; leave the rest alone."""
    if value is None or (isinstance(value, str | int | float) and not isinstance(value, Enum)):
        return value
    if isinstance(value, Mapping):
        return {_plain_key(key): plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [plain(member) for member in value]
    if isinstance(value, set | frozenset):
        return sorted((plain(member) for member in value), key=jsontext.dumps)
    return _plain_object(value)


def _checked(encoding: Callable[[], str], limit_bytes: int, what: str) -> str:
    try:
        text = encoding()
    except RecursionError:
        raise ValueError(f"{what} can't be stored: $: nested too deeply") from None
    except BaseException as error:  # the attributes of a handler's object may raise anything
        raise ValueError(f"{what} can't be stored: {clean(error, _REASON_BYTES)}") from error
    jsontext.check_size(text, limit_bytes, what)
    return text


def _encode(value: object) -> str:
    try:
        return jsontext.dumps(value)
    except ValueError:
        return jsontext.dumps(plain(value))


def _encode_object(value: object) -> str:
    values = value if isinstance(value, dict) else plain(value)
    if not isinstance(values, dict):
        raise ValueError(f"a {type(value).__name__} is not a JSON object")
    return _encode(values)


def _plain_key(key: object) -> object:
    return plain(key) if isinstance(key, Enum | UUID | date) else key


def _plain_object(value: object) -> object:
    kind = type(value)
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, UUID | PurePath):
        return str(value)
    if records.is_struct(kind):
        names = zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)  # type: ignore[attr-defined]
        return {encoded: plain(getattr(value, name)) for name, encoded in names}
    if records.is_model(kind):
        return plain(value.model_dump(by_alias=True))  # type: ignore[attr-defined]
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        return {field.name: plain(getattr(value, field.name)) for field in fields if field.init}
    return value
