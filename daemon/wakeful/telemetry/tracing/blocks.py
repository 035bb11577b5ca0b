"""Spans as blocks: an enqueue, a step, and an attempt, whose span ends later than its block, when it has landed.

Invariant: leaving a block puts back what was current before, whatever the tracer does, and raises nothing of its own.
Texts of errors are those that the caller has cleaned of secrets; an enqueue's are cleaned here.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.metrics import Counter, Histogram
from opentelemetry.trace import Span, SpanContext, Status, StatusCode

from wakeful.core.job import Job
from wakeful.core.text import clean, describe_exception
from wakeful.telemetry.job_log import redactor_of_current_attempt
from wakeful.telemetry.tracing.carrier import STATE_LIMIT, Carrier, carrier_of
from wakeful.telemetry.tracing.joining import Failure

Attributes = Mapping[str, str | int | float | bool]

MESSAGE_LIMIT_BYTES: Final = 500


class Sending:
    """The span of an enqueue. `carrier` is what the job is to carry of it."""

    __slots__ = ("_attributes", "_counter", "_span", "_token", "carrier")

    def __init__(self, span: Span, counter: Counter | None, attributes: Attributes) -> None:
        self._span, self._counter, self._attributes = span, counter, dict(attributes)
        self.carrier = carrier_of_span(span.get_span_context())

    def __enter__(self) -> Sending:
        self._token = context.attach(trace.set_span_in_context(self._span))
        return self

    def __exit__(self, _kind: object, raised: BaseException | None, _traceback: object) -> None:
        context.detach(self._token)
        with suppress(Exception):  # somebody else's tracer
            if raised is not None:
                failure = _failure_of(raised)
                fail(self._span, failure)
                self._attributes["error.type"] = failure.type
            if self._counter is not None:
                self._counter.add(1, self._attributes)
            self._span.end()

    def sent(self, job_id: object, *, created: bool) -> None:
        """The database has answered with the job, or with the active one that has its key."""
        with suppress(Exception):  # somebody else's tracer
            self._span.set_attribute("messaging.message.id", str(job_id))
            if not created:
                self._span.set_attribute("wakeful.deduplicated", True)  # noqa: FBT003 -- their signature


class Block:
    """A span that is current from when this is made until it is left."""

    __slots__ = ("_span", "_token")

    def __init__(self, span: Span) -> None:
        self._span = span
        self._token = context.attach(trace.set_span_in_context(span))

    def leave(self, failure: Failure | None) -> None:
        """The block is over."""
        context.detach(self._token)
        with suppress(Exception):  # somebody else's tracer
            if failure is not None:
                fail(self._span, failure)
            self._span.end()


class Attached:
    """A block with a context of its own."""

    __slots__ = ("_context", "_token")

    def __init__(self, inside: Context) -> None:
        self._context = inside

    def __enter__(self) -> None:
        self._token = context.attach(self._context)

    def __exit__(self, *_raised: object) -> None:
        context.detach(self._token)


class AttemptTrace:
    """One attempt as a trace: its names on lines, the block that its handler runs in, and its span until it has landed.

    A tracer that is switched off makes spans without ids: then `ids` is empty, and `traceparent` None.

    Not thread-safe but for `fields`.
    """

    __slots__ = (
        "_attributes",
        "_began",
        "_context",
        "_ended",
        "_job",
        "_span",
        "_times",
        "_token",
        "ids",
        "traceparent",
    )

    def __init__(
        self, span: Span, job: Job, inside: Context, *, times: Histogram | None, attributes: Attributes
    ) -> None:
        self._span, self._job, self._context = span, job, inside
        self._times, self._attributes = times, attributes
        self._began, self._ended = time.time_ns(), 0
        mine = span.get_span_context()
        self.ids = ids_of(mine) if mine.is_valid else {}
        self.traceparent = traceparent_of(mine) if mine.is_valid else None

    def fields(self) -> dict[str, object]:
        """What each line carries that is logged in the attempt: its names, and the span that is current there."""
        with suppress(Exception):  # somebody else's span
            current = trace.get_current_span().get_span_context()
            if current.is_valid:
                return self._job.fields() | ids_of(current)
        return self._job.fields() | self.ids

    def enter(self) -> None:
        """The handler is about to be called in this context."""
        self._token = context.attach(self._context)

    def leave(self) -> None:
        """The handler has ended."""
        self._ended = time.time_ns()
        context.detach(self._token)

    def end(self, outcome: str, *, wait: float, failure: Failure | None) -> None:
        """The attempt has landed: `outcome` as in events, `wait` the seconds from due to claimed."""
        ended = self._ended or time.time_ns()
        self._span.set_attributes({"wakeful.outcome": outcome, "wakeful.wait_seconds": round(wait, 6)})
        if failure is not None:
            fail(self._span, failure, ended)
        self._span.end(ended)
        if self._times is not None:
            error = {} if failure is None else {"error.type": failure.type}
            self._times.record((ended - self._began) / 1e9, {**self._attributes, **error})


def fail(span: Span, failure: Failure, at: int | None = None) -> None:
    """Mark a span as failed, with the exception as an event."""
    span.set_attribute("error.type", failure.type)
    span.set_status(Status(StatusCode.ERROR, failure.message))
    told = {"exception.type": failure.type, "exception.message": failure.message}
    if failure.traceback is not None:
        told["exception.stacktrace"] = failure.traceback
    span.add_event("exception", told, timestamp=at)


def _failure_of(raised: BaseException) -> Failure:
    """Say why an enqueue failed, by the first line: below it drivers show the row, payload and all."""
    entry, redactor = describe_exception(raised), redactor_of_current_attempt()
    said = entry.message.partition("\n")[0]
    shown = said if redactor is None else redactor.shortened(said)
    return Failure(entry.type, clean(shown, MESSAGE_LIMIT_BYTES))


def ids_of(found: SpanContext) -> dict[str, object]:
    """Give the ids of a span as fields of a line."""
    return {
        "trace_id": trace.format_trace_id(found.trace_id),
        "span_id": trace.format_span_id(found.span_id),
    }


def traceparent_of(found: SpanContext) -> str:
    """Give a span's context in the W3C's form."""
    trace_id, span_id = trace.format_trace_id(found.trace_id), trace.format_span_id(found.span_id)
    return f"00-{trace_id}-{span_id}-{found.trace_flags:02x}"


def carrier_of_span(found: SpanContext) -> Carrier | None:
    """Give what a job is to carry of a span; None of one that is none."""
    if not found.is_valid:
        return None
    state = found.trace_state.to_header() if found.trace_state else ""
    kept = {"tracestate": state} if len(state) <= STATE_LIMIT else {}
    return carrier_of({"traceparent": traceparent_of(found), **kept})
