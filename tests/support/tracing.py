"""OpenTelemetry's own SDK in this process, and what it was given: spans and metrics, in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import opentelemetry.metrics._internal as metrics_of_the_api
from opentelemetry import trace
from opentelemetry.sdk.metrics import ExemplarFilter, MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, Tracer

from support.eventually import eventually, looked


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """What the SDK of this process was given."""

    provider: TracerProvider
    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader

    @property
    def tracer(self) -> Tracer:
        """One for a test's own spans."""
        return self.provider.get_tracer("test")

    def named(self, name: str) -> list[ReadableSpan]:
        """The spans of this name that have ended, in the order of their ends."""
        return [span for span in self.exporter.get_finished_spans() if span.name == name]

    async def ended(self, name: str, count: int = 1) -> list[ReadableSpan]:
        """Wait until so many spans of this name have ended."""
        await eventually(looked(lambda: self.named(name)), until=lambda found: len(found) >= count)
        return self.named(name)

    def points(self, name: str) -> list[Any]:
        """The data points of a metric."""
        data = self.reader.get_metrics_data()
        found = [
            metric
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
        ]
        return [point for metric in found if metric.name == name for point in metric.data.data_points]


@contextmanager
def traced_process(
    provider: TracerProvider | None = None, *, exemplars: ExemplarFilter | None = None
) -> Iterator[Traces]:
    """Have an SDK in this process for a block. The API takes a provider once in a life; a process of tests has many."""
    chosen = provider or TracerProvider()
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    chosen.add_span_processor(SimpleSpanProcessor(exporter))
    meters = MeterProvider([reader], exemplar_filter=exemplars)
    before = trace._TRACER_PROVIDER, metrics_of_the_api._METER_PROVIDER
    trace._TRACER_PROVIDER, metrics_of_the_api._METER_PROVIDER = chosen, meters
    try:
        yield Traces(provider=chosen, exporter=exporter, reader=reader)
    finally:
        trace._TRACER_PROVIDER, metrics_of_the_api._METER_PROVIDER = before
        chosen.shutdown()
        meters.shutdown()


def context_of(span: ReadableSpan) -> SpanContext:
    """A span's context, which every span has."""
    context = span.get_span_context()
    assert context is not None
    return context


def linked_to(span: ReadableSpan) -> list[tuple[int, int]]:
    """What a span is linked to: ids of trace and span."""
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


def ids(span: ReadableSpan) -> tuple[int, int]:
    """Ids of trace and span."""
    return context_of(span).trace_id, context_of(span).span_id


def outcomes(spans: Sequence[ReadableSpan]) -> list[object]:
    """What became of attempts, by their spans."""
    return [(span.attributes or {}).get("wakeful.outcome") for span in spans]
