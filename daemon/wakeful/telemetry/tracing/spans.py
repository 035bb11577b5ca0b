"""The spans and metrics of messaging, by OpenTelemetry's API: the only module, with `blocks`, that imports it.

Names are those of the semantic conventions for messaging. `OTEL_SEMCONV_STABILITY_OPT_IN=messaging/dup` adds the older
name of the operation. Invariant: what is made here belongs to the providers that the process had when it was made; one
without an SDK makes spans that hand a trace on and record nothing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from importlib import metadata
from typing import Any, Final, Literal, assert_never

from opentelemetry import context, metrics, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, NoOpTracer, SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from wakeful.core.job import Job
from wakeful.core.settings import TracingMode
from wakeful.core.text import clean
from wakeful.telemetry.meters import LONG_SECONDS
from wakeful.telemetry.tracing.blocks import (
    Attached,
    AttemptTrace,
    Attributes,
    Block,
    Sending,
    carrier_of_span,
)
from wakeful.telemetry.tracing.carrier import Carrier, carried_in

SYSTEM: Final = "wakeful"
SCOPE: Final = "wakeful"
NAME_LIMIT_BYTES: Final = 200

Operation = Literal["send", "create", "process"]

_OPT_IN: Final = "OTEL_SEMCONV_STABILITY_OPT_IN"
_OLD_NAMES: Final = {"send": "publish", "create": "create", "process": "process"}
_W3C: Final = TraceContextTextMapPropagator()
# In the context of an attempt that is traced: what its steps ask.
_SPANS: Final = context.create_key("wakeful-spans")


class Spans:
    """What makes the spans of one process, by its providers."""

    __slots__ = ("_sent", "_times", "_tracer", "_tracers", "_with_old_names", "is_recording")

    def __init__(self, tracers: trace.TracerProvider, meters: metrics.MeterProvider) -> None:
        version = _version()
        self._tracers = tracers
        self._tracer = trace.get_tracer(SCOPE, version, tracers)
        self.is_recording = _is_sdk(tracers) and not isinstance(self._tracer, NoOpTracer)
        self._with_old_names = "messaging/dup" in os.environ.get(_OPT_IN, "").replace(" ", "").split(",")
        self._sent = self._times = None
        if _is_sdk(meters):
            meter = metrics.get_meter(SCOPE, version, meters)
            self._sent = meter.create_counter(
                "messaging.client.sent.messages", unit="{message}", description="Jobs enqueued."
            )
            self._times = meter.create_histogram(
                "messaging.process.duration",
                unit="s",
                description="How long handlers ran.",
                explicit_bucket_boundaries_advisory=LONG_SECONDS,
            )

    def send(self, job_type: str, queue: str | None) -> Sending:
        """Give the block of an enqueue."""
        attributes = self._attributes("send", job_type, queue)
        span = self._tracer.start_span(_name("send", queue), kind=SpanKind.PRODUCER, attributes=attributes)
        return Sending(span, self._sent, attributes)

    def create(self, job_type: str, queue: str | None) -> Carrier | None:
        """Give what a job carries that is made now and sent with the end of another."""
        attributes = self._attributes("create", job_type, queue)
        span = self._tracer.start_span(_name("create", queue), kind=SpanKind.PRODUCER, attributes=attributes)
        span.end()
        return carrier_of_span(span.get_span_context())

    def sent_later(self, count: int) -> None:
        """Count jobs that were sent with the end of another."""
        if self._sent is not None:
            named = {"messaging.system": SYSTEM, "messaging.operation.name": "send"}
            self._sent.add(count, named)

    def attempt(self, job: Job, mode: TracingMode) -> AttemptTrace:
        """Begin the trace of an attempt."""
        attributes = self._attributes("process", job.job_type, job.queue)
        parent, links = _relation(carried_in(job.meta_text), mode, is_first=job.run_no == 1)
        span = self._tracer.start_span(
            _name("process", job.queue),
            context=parent,
            kind=SpanKind.CONSUMER,
            attributes={
                **attributes,
                "messaging.message.id": str(job.job_id),
                "wakeful.attempt": job.attempts,
                "wakeful.max_attempts": job.max_attempts,
                "wakeful.run_no": job.run_no,
                "wakeful.priority": job.priority,
            },
            links=links,
        )
        inside = context.set_value(_SPANS, self, trace.set_span_in_context(span, Context()))
        return AttemptTrace(span, job, inside, times=self._times, attributes=attributes)

    def step(self, name: str) -> Block:
        """Begin the block of a step, named as the step is."""
        return Block(self._tracer.start_span(clean(name, NAME_LIMIT_BYTES)))

    def flush(self, milliseconds: int) -> None:
        """Have what has ended exported, where the provider can; takes as long as the exporter does."""
        force: Any = getattr(self._tracers, "force_flush", None)
        if force is not None:
            force(milliseconds)

    def _attributes(self, operation: Operation, job_type: str, queue: str | None) -> Attributes:
        old = {"messaging.operation": _OLD_NAMES[operation]} if self._with_old_names else {}
        where = {} if queue is None else {"messaging.destination.name": queue}
        return {
            "messaging.system": SYSTEM,
            "messaging.operation.name": operation,
            "messaging.operation.type": operation,
            "wakeful.job_type": job_type,
            **where,
            **old,
        }


def sending(job_type: str, queue: str | None) -> Sending:
    """Give the block of an enqueue in this process."""
    return _spans().send(job_type, queue)


def created(job_type: str, queue: str | None) -> Carrier | None:
    """Give what a job carries that is made in this process now; only in an attempt that is traced with its own span."""
    found = context.get_value(_SPANS)
    return found.create(job_type, queue) if isinstance(found, Spans) else current_carrier()


def step_block(name: str) -> Block | None:
    """Begin the block of a step of this context's attempt; None where that is not traced."""
    found = context.get_value(_SPANS)
    return found.step(name) if isinstance(found, Spans) else None


def current_carrier() -> Carrier | None:
    """Give the context of the code that asks, in the W3C's form."""
    return carrier_of_span(trace.get_current_span().get_span_context())


def within_remote(carrier: Carrier) -> Attached:
    """Give the block of an attempt within a span of another process."""
    return Attached(context.set_value(_SPANS, _spans(), _W3C.extract(carrier.members(), Context())))


def spans_with_sdk() -> Spans | None:
    """Give what makes this process's spans; None where nobody has set an SDK up, or has switched it off."""
    spans = _spans()
    return spans if spans.is_recording else None


def _spans() -> Spans:
    return _made(trace.get_tracer_provider(), metrics.get_meter_provider())


@lru_cache(maxsize=4)
def _made(tracers: trace.TracerProvider, meters: metrics.MeterProvider) -> Spans:
    return Spans(tracers, meters)


def _is_sdk(provider: object) -> bool:
    """Whether somebody has set a provider up: the API's own ones, which do nothing, stand for none."""
    return not type(provider).__module__.startswith(("opentelemetry.trace", "opentelemetry.metrics"))


def _relation(
    carrier: Carrier | None, mode: TracingMode, *, is_first: bool
) -> tuple[Context, Sequence[Link]]:
    """Give the context in which an attempt's span begins, and its links."""
    if carrier is None:
        return Context(), ()
    producer = _W3C.extract(carrier.members(), Context())
    match mode:
        case "parent" if is_first:
            return producer, ()
        case "link" | "parent":
            return Context(), (Link(trace.get_current_span(producer).get_span_context()),)
        case "off":
            return Context(), ()
        case _:
            assert_never(mode)


def _name(operation: Operation, queue: str | None) -> str:
    return operation if queue is None else f"{operation} {queue}"


def _version() -> str:
    try:
        return metadata.version("wakeful")
    except metadata.PackageNotFoundError:
        return "0+unknown"
