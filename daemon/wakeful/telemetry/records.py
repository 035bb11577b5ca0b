"""What a record of the standard library's log says: its text, and the fields that were given with it.

Invariant: reading a record never raises, whatever its caller put into it. How a line looks is `lines`'.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

_OF_EVERY_RECORD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {
    "message",
    "asctime",
    "taskName",
    "fields",
}


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """Give what a caller added as `extra`, by name; the mapping `fields` among it counts as so many of them."""
    given = record.__dict__
    found = {key: value for key, value in given.items() if key not in _OF_EVERY_RECORD}
    fields = given.get("fields")
    return {**found, **fields} if isinstance(fields, Mapping) else found


def text_of(record: logging.LogRecord) -> str:
    """Give the message with its arguments."""
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - the arguments do not fit the message, or one of them raises
        return f"{record.msg!r} (its arguments can't be shown)"
