"""Text as PostgreSQL can store it: whatever a handler raised, printed or named becomes a clean, bounded string.

Invariant: nothing here raises and nothing here returns a NUL, a lone surrogate or more bytes than asked for: one bad
text in a batch would make PostgreSQL refuse its neighbours too.
"""

from __future__ import annotations

import re
import traceback
from collections import deque
from typing import Final

from wakeful.core.fingerprint import fingerprint
from wakeful.core.outcome import ErrorEntry

ERROR_LIMIT_BYTES: Final = 16 * 1024
CUT_MARK: Final = "…[cut]"
GAP_MARK: Final = "\n  …[cut]…\n"

_TYPE_LIMIT_BYTES: Final = 200
_FRAMES_OF_ONE_EXCEPTION: Final = 50
_KEPT_CHUNKS: Final = 400
_NAMED_LEAVES: Final = 5
_FRAGMENT_BYTES: Final = 200
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def clean(value: object, limit_bytes: int) -> str:
    """Give `value` as text of at most `limit_bytes` bytes of UTF-8; what was cut off the end leaves a visible mark.

    NUL becomes U+2400, a lone surrogate U+FFFD. Never raises, not for an object whose ``__str__`` does.
    """
    text = _text_of(value)
    # A character is a byte at least, so what lies past the limit can't stay: a huge text is not encoded whole.
    whole = _storable(text[: limit_bytes + 1])
    encoded = whole.encode("utf-8")
    if len(encoded) <= limit_bytes:
        return whole
    return _head(encoded, limit_bytes - len(CUT_MARK.encode())) + _head(CUT_MARK.encode(), limit_bytes)


def clean_middle(value: object, limit_bytes: int) -> str:
    """Like `clean`, but what is cut lies in the middle: a traceback says most at its end."""
    text = _text_of(value)
    if len(text) > 2 * limit_bytes:
        text = text[:limit_bytes] + text[len(text) - limit_bytes :]
    encoded = _storable(text).encode("utf-8")
    room = limit_bytes - len(GAP_MARK.encode())
    if len(encoded) <= limit_bytes:
        return encoded.decode("utf-8")
    if room <= 0:
        return _head(encoded, limit_bytes)
    head = room // 4
    return _head(encoded, head) + GAP_MARK + _tail(encoded, room - head)


def describe_exception(exc: BaseException, limit: int = ERROR_LIMIT_BYTES) -> ErrorEntry:
    """Give an exception as it is stored: type, message and traceback, together at most `limit` bytes.

    A group is named by what is in it: by its only member, or by its own message and its first members. The type is
    the bare class name, so that the stored error starts with it.
    """
    named = only_member(exc)
    type_text = clean(_type_name(named), min(_TYPE_LIMIT_BYTES, limit // 4))
    message = clean(_message_of(named), limit // 4)
    room = limit - len(type_text.encode()) - len(message.encode())
    return ErrorEntry(
        type=type_text,
        message=message,
        traceback=clean_middle(_traceback_of(exc), room),
        fingerprint=fingerprint(type_text, named),
    )


def only_member(exc: BaseException) -> BaseException:
    """Give the exception that a group is round, where it is round a single one (as a task group's often is)."""
    found = exc
    while isinstance(found, BaseExceptionGroup) and len(found.exceptions) == 1:
        found = found.exceptions[0]
    return found


def _text_of(value: object) -> str:
    if isinstance(value, str):
        return str.__str__(value)  # a subclass may have a __str__ of its own
    try:
        return str.__str__(str(value))
    except BaseException:  # noqa: BLE001 -- a user's __str__ may raise anything, SystemExit included
        return f"<{_type_name(value)} without a readable text>"


def _type_name(value: object) -> str:
    name: str = type.__dict__["__name__"].__get__(type(value))  # a metaclass may shadow the plain attribute
    return name


def _storable(text: str) -> str:
    return _SURROGATE.sub("\ufffd", text.replace("\x00", "\u2400"))


def _head(encoded: bytes, size: int) -> str:
    return encoded[: max(size, 0)].decode("utf-8", errors="ignore")


def _tail(encoded: bytes, size: int) -> str:
    return encoded[len(encoded) - size :].decode("utf-8", errors="ignore")


def _message_of(exc: BaseException) -> str:
    if not isinstance(exc, BaseExceptionGroup):
        return _text_of(exc)
    members = (only_member(member) for member in exc.exceptions[:_NAMED_LEAVES])
    named = "; ".join(f"{_type_name(leaf)}: {clean(leaf, _FRAGMENT_BYTES)}" for leaf in members)
    return f"{clean(exc, _FRAGMENT_BYTES)}: {named}"


def _traceback_of(exc: BaseException) -> str:
    try:
        story = traceback.TracebackException.from_exception(exc, limit=-_FRAMES_OF_ONE_EXCEPTION)
        # The last chunks are the exception itself; the first are the causes that it came from.
        chunks = deque((clean(chunk, ERROR_LIMIT_BYTES) for chunk in story.format()), maxlen=_KEPT_CHUNKS)
    except BaseException:  # noqa: BLE001 -- attributes of an exception are its author's code, and may raise
        return "(the traceback could not be formatted)"
    return "".join(chunks)
