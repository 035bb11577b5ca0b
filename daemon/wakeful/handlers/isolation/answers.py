"""How an attempt in a process of its own ended, as a frame: what it returned, or what it raised.

Invariant: a directive means the same on both sides, and any other exception keeps its type, message and traceback as
text. The exception itself never travels: unpickling what a handler's process sends would run its code in the daemon.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from wakeful.core import jsontext
from wakeful.core.fingerprint import LONGEST_FINGERPRINT, fingerprint
from wakeful.core.outcome import ErrorEntry
from wakeful.core.text import ERROR_LIMIT_BYTES, clean, clean_middle, describe_exception
from wakeful.errors import Directive, Discard, Fail, RateLimited, Retry, Snooze, WakefulError
from wakeful.handlers.isolation.frames import Frame, GarbageFrame, number_of, optional_text_of, text_of
from wakeful.handlers.plain import encode_result

REASON_LIMIT_BYTES: Final = 16 * 1024

_TYPE_LIMIT_BYTES: Final = 200
_MESSAGE_LIMIT_BYTES: Final = 4096


class RaisedInProcess(WakefulError):
    """What a handler raised in its process; `entry` describes it, with the traceback from there."""

    def __init__(self, entry: ErrorEntry) -> None:
        self.entry = entry
        super().__init__(entry.summary)


def returned(value: object) -> Frame:
    """Give the frame of a result; of an error where it can't be stored."""
    try:
        return {"do": "returned", "result": encode_result(value)}
    except ValueError as error:
        return {"do": "raised", "type": "ResultRefused", "message": clean(error, 2000)}


def raised(error: BaseException) -> Frame:
    """Give the frame of an exception."""
    match error:
        case RateLimited():
            return _directive("RateLimited", error.reason, after=error.after)
        case Snooze():
            return _directive("Snooze", error.reason, after=error.after)
        case Retry():
            return _directive(
                "Retry", error.reason, after=error.after, fingerprint=fingerprint("Retry", error)
            )
        case Fail():
            return _directive(
                "Fail", error.reason, retry=bool(error.retry), fingerprint=fingerprint("Fail", error)
            )
        case Discard():
            return _directive("Discard", error.reason)
        case _:
            entry = describe_exception(error)
            texts = {"type": entry.type, "message": entry.message, "traceback": entry.traceback}
            return {"do": "raised", "fingerprint": entry.fingerprint, **texts}


class Answered(NamedTuple):
    """How a handler ended: `value` is what it returned, unless it `raised`."""

    value: object = None
    raised: Exception | None = None


def answer_of(frame: Frame) -> Answered:
    """Give the answer that a frame is; raises GarbageFrame."""
    match frame["do"]:
        case "returned":
            return Answered(value=_value_of(frame))
        case "raised":
            if "directive" not in frame:
                return Answered(raised=_error_of(frame))
            directive = _directive_of(frame)
            if (mark := _fingerprint_of(frame)) is not None:
                directive.fingerprint = mark
            return Answered(raised=directive)
        case _:
            raise GarbageFrame("a message that there is none of")


def _value_of(frame: Frame) -> object:
    try:
        return jsontext.loads(text_of(frame, "result"))
    except (ValueError, RecursionError) as error:
        raise GarbageFrame(f"a result that is no JSON ({type(error).__name__})") from None


def _error_of(frame: Frame) -> Exception:
    trace = optional_text_of(frame, "traceback")
    entry = ErrorEntry(
        type=clean(text_of(frame, "type"), _TYPE_LIMIT_BYTES),
        message=clean(text_of(frame, "message"), _MESSAGE_LIMIT_BYTES),
        traceback=None if trace is None else clean_middle(trace, ERROR_LIMIT_BYTES),
        fingerprint=_fingerprint_of(frame),
    )
    return RaisedInProcess(entry)


def _fingerprint_of(frame: Frame) -> str | None:
    mark = optional_text_of(frame, "fingerprint")
    return None if mark is None else clean(mark, LONGEST_FINGERPRINT)


def _directive(kind: str, reason: object, **fields: object) -> Frame:
    return {"do": "raised", "directive": kind, "reason": clean(reason, REASON_LIMIT_BYTES), **fields}


def _directive_of(frame: Frame) -> Directive:
    reason = text_of(frame, "reason")
    match frame["directive"]:
        case "Retry":
            return Retry(number_of(frame, "after"), reason)
        case "Snooze":
            return Snooze(number_of(frame, "after"), reason)
        case "RateLimited":
            return RateLimited(number_of(frame, "after"), reason)
        case "Fail":
            return Fail(reason, retry=frame.get("retry") is True)
        case "Discard":
            return Discard(reason)
        case _:
            raise GarbageFrame("a directive that there is none of")
