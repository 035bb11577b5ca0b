"""What tells one bug from another in the alerts: the class of an error, and where in one's own code it rose.

Invariant: pure, bounded, and never raises, whatever an exception's author wrote. No message and no line number is in
it, so that neither an id in a text nor a deploy splits one bug into many. Grouping by it is `depart()`'s.
"""

from __future__ import annotations

import re
import sysconfig
from enum import Enum, auto
from pathlib import Path
from types import FrameType
from typing import Final

LONGEST_FRAME: Final = 160
LONGEST_FINGERPRINT: Final = 240

_OURS: Final = f"{Path(__file__).parents[1]}/"
_STANDARD: Final = tuple({f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib")})
_INSTALLED: Final = ("/site-packages/", "/dist-packages/")
_INNER: Final = re.compile(r"\.<locals>\.<(?:listcomp|setcomp|dictcomp|genexpr)>")  # not there in Python 3.12
_UUID: Final = re.compile(r"[0-9a-f]{8}[-_]?(?:[0-9a-f]{4}[-_]?){3}[0-9a-f]{12}", re.IGNORECASE)
_HEX: Final = re.compile(r"(?=[a-f]*[0-9])[0-9a-f]{8,}", re.IGNORECASE)
_DIGITS: Final = re.compile(r"\d+")
_MANY_DIGITS: Final = re.compile(
    r"\d{4,}"
)  # Http404 and Http500 are two classes, Place8731 is one of thousands
_UNNAMED: Final = re.compile(r"[^\w.:<>*-]+")


def fingerprint(type_name: str, error: BaseException) -> str | None:
    """Give `PlaceGone@shop.places:fetch`; None where nothing of one's own is in the traceback, or there is none."""
    frame = own_frame(error)
    if frame is None:
        return None
    return f"{_scrubbed(type_name, _MANY_DIGITS)}@{frame}"[:LONGEST_FINGERPRINT]


def own_frame(error: BaseException) -> str | None:
    """Give module and function of the innermost frame that is neither of the standard library, nor installed, nor ours.

    Where there is none, the application itself is installed: then the innermost frame of the package that we called.
    """
    try:
        return _found(error)
    except Exception:  # noqa: BLE001 -- an exception's attributes are its author's code, and may raise
        return None


def _found(error: BaseException) -> str | None:
    own: FrameType | None = None
    called: FrameType | None = None
    trace = error.__traceback__
    while trace is not None:
        frame, trace = trace.tb_frame, trace.tb_next
        match _place(frame):
            case _Place.OWN:
                own = frame
            case _Place.INSTALLED if called is None or _package(frame) == _package(called):
                called = frame
            case _:
                pass
    found = own or called
    return None if found is None else _named(found)


class _Place(Enum):
    OWN = auto()
    INSTALLED = auto()
    ELSEWHERE = auto()


def _place(frame: FrameType) -> _Place:
    file = frame.f_code.co_filename
    if file.startswith("<"):  # made at run time: of a dataclass, or frozen
        return _Place.ELSEWHERE
    if not file.startswith("/"):  # compiled code names its source, which is not there
        known = dict.get(frame.f_globals, "__file__")
        file = known if isinstance(known, str) else file
    if any(part in file for part in _INSTALLED):
        return _Place.ELSEWHERE if file.startswith(_OURS) else _Place.INSTALLED
    return _Place.ELSEWHERE if file.startswith((_OURS, *_STANDARD)) else _Place.OWN


def _module(frame: FrameType) -> str:
    name = dict.get(frame.f_globals, "__name__")
    return name if isinstance(name, str) else "?"


def _package(frame: FrameType) -> str:
    return _module(frame).partition(".")[0]


def _named(frame: FrameType) -> str:
    function = _INNER.sub("", frame.f_code.co_qualname)
    return _scrubbed(f"{_module(frame)}:{function}", _DIGITS)[:LONGEST_FRAME]


def _scrubbed(text: str, digits: re.Pattern[str]) -> str:
    return _UNNAMED.sub("?", digits.sub("*", _HEX.sub("*", _UUID.sub("*", text))))
