"""From a handler's answer to the outcome of its attempt: pure, one clause a case.

Invariant: the reason for which an attempt was stopped decides before what the handler made of it (F34); a handler that
returned after it was asked to stop, but before its deadline, has done its work. Directives say exactly what happens;
everything else raised is a failure, with backoff.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Final, NamedTuple

from wakeful.core import backoff
from wakeful.core.fingerprint import fingerprint
from wakeful.core.outcome import (
    AlertRequest,
    Discarded,
    Done,
    ErrorEntry,
    Failed,
    Fenced,
    HandedBack,
    Outcome,
    Snoozed,
)
from wakeful.core.text import clean, describe_exception
from wakeful.errors import (
    Directive,
    Discard,
    Fail,
    JobCancelled,
    JobDeadlineExceeded,
    JobInterrupted,
    LeaseLost,
    MemoryLimitExceeded,
    NoFreeThread,
    ProcessDied,
    Retry,
    Snooze,
)
from wakeful.handlers.buffer import NOTHING, Buffered
from wakeful.handlers.control import StopReason
from wakeful.handlers.invoke import RETURNED_NOTHING, Answer, Raised, Returned
from wakeful.handlers.isolation.answers import RaisedInProcess
from wakeful.handlers.plain import encode_result
from wakeful.telemetry.redaction import Redactor

REASON_LIMIT_BYTES: Final = 16 * 1024
SHORTEST_SNOOZE_SECONDS: Final = 1.0
# What most attempts come to, made once.
NULL_KEPT: Final = Done(result_text="null")
NULL_NOT_KEPT: Final = Done(result_text="null", history=False)


class Circumstances(NamedTuple):
    """What the verdict on an answer depends on besides it. `delay` gives the backoff after a failure, in seconds."""

    reason: StopReason | None
    fenced: bool
    snoozed: float
    snooze_limit: float
    history: bool
    delay: Callable[[], float]


def plain_success(answer: Answer, buffered: Buffered, *, history: bool) -> Done | None:
    """The verdict on a handler that gave and asked for nothing, without a look at anything else; None for all others.

    Only for an attempt that nobody has asked to stop.
    """
    if answer is RETURNED_NOTHING and buffered is NOTHING:
        return NULL_KEPT if history else NULL_NOT_KEPT
    return None


def verdict(answer: Answer, buffered: Buffered, circumstances: Circumstances) -> Outcome:
    """Decide what becomes of an attempt."""
    reason = circumstances.reason
    if isinstance(answer, Returned) and not isinstance(reason, JobDeadlineExceeded):
        return _returned(answer.value, buffered, circumstances)
    if circumstances.fenced:
        return Fenced(reason=f"lease-expired reclaim: {reason}")
    if reason is not None:
        return _stopped(reason, answer, buffered, circumstances)
    assert isinstance(answer, Raised), "what returned, and was not stopped, is judged above"
    return _raised(answer.exception, buffered, circumstances)


def _stopped(reason: StopReason, answer: Answer, buffered: Buffered, circumstances: Circumstances) -> Outcome:
    match reason:
        case JobDeadlineExceeded():
            error = ErrorEntry(type="JobDeadlineExceeded", message=str(reason))
            if isinstance(answer, Raised):  # where it stood when its time was over
                trace = _entry_of(answer.exception).traceback
                mark = fingerprint(error.type, answer.exception)
                error = replace(error, traceback=trace, fingerprint=mark)
            return Failed(error=error, delay=circumstances.delay(), alerts=buffered.alerts)
        case JobCancelled():
            return Discarded(reason=str(reason), alerts=buffered.alerts)
        case NoFreeThread():
            return HandedBack(counted=False)
        case JobInterrupted():
            return HandedBack()
        case LeaseLost():
            # Only the fence can tell whether the claim still holds; if it does, the attempt is given back.
            return HandedBack(counted=False)


def _returned(value: object, buffered: Buffered, circumstances: Circumstances) -> Outcome:
    try:
        text = encode_result(value)
    except ValueError as error:
        entry = ErrorEntry(type="ResultRefused", message=clean(error, 2000))
        return Failed(error=entry, delay=circumstances.delay(), alerts=buffered.alerts)
    return Done(
        result_text=text,
        degraded=buffered.degraded,
        history=circumstances.history,
        follow_ups=buffered.follow_ups,
        alerts=buffered.alerts,
    )


def _raised(raised: BaseException, buffered: Buffered, circumstances: Circumstances) -> Outcome:
    alerts: tuple[AlertRequest, ...] = buffered.alerts
    match raised:
        case Snooze():
            return _snoozed(raised, circumstances, alerts)
        case Retry():
            entry = _said(type(raised).__name__, raised, raised.reason)
            delay = backoff.on_top(raised.after, random.random())
            return Failed(error=entry, delay=delay, alerts=alerts)
        case Fail():
            entry = _said("Fail", raised, raised.reason)
            return Failed(error=entry, delay=circumstances.delay(), retry=raised.retry, alerts=alerts)
        case Discard():
            return Discarded(reason=clean(raised.reason, REASON_LIMIT_BYTES), alerts=alerts)
        case RaisedInProcess():
            return Failed(error=raised.entry, delay=circumstances.delay(), alerts=alerts)
        case _:
            return Failed(error=_entry_of(raised), delay=circumstances.delay(), alerts=alerts)


def _said(kind: str, raised: Directive, reason: object) -> ErrorEntry:
    mark = raised.fingerprint or fingerprint(kind, raised)
    return ErrorEntry(type=kind, message=clean(reason, REASON_LIMIT_BYTES), fingerprint=mark)


def _entry_of(raised: BaseException) -> ErrorEntry:
    entry = describe_exception(raised)
    # How a handler's process ended is no place in anybody's code, least of all in ours.
    return (
        replace(entry, traceback=None, fingerprint=None)
        if isinstance(raised, ProcessDied | MemoryLimitExceeded)
        else entry
    )


def _snoozed(snooze: Snooze, circumstances: Circumstances, alerts: tuple[AlertRequest, ...]) -> Outcome:
    # Never at once: a server that answers "429, retry after 0" would be asked as fast as it answers, for ever.
    after = max(snooze.after, SHORTEST_SNOOZE_SECONDS)
    total = circumstances.snoozed + after
    if total <= circumstances.snooze_limit:
        return Snoozed(delay=backoff.on_top(after, random.random()), reason=clean(snooze.reason, 500))
    message = f"asked to wait {total:.0f} s in all, more than jobs.snooze_limit: {clean(snooze.reason, 2000)}"
    entry = ErrorEntry(type="SnoozedTooLong", message=message)
    return Failed(error=entry, delay=circumstances.delay(), alerts=alerts)


def without_secrets(outcome: Outcome, redactor: Redactor) -> Outcome:
    """The outcome with the process's secrets taken out of what people will read (R12)."""
    match outcome:
        case Done(degraded=()):
            return outcome
        case Done():
            return replace(outcome, degraded=tuple(redactor.text(one) for one in outcome.degraded))
        case Failed():
            error = outcome.error
            trace = None if error.traceback is None else redactor.shortened(error.traceback)
            hidden = replace(error, message=redactor.shortened(error.message), traceback=trace)
            return replace(outcome, error=hidden)
        case Discarded():
            return replace(outcome, reason=redactor.text(outcome.reason))
        case _:
            return outcome
