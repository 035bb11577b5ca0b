"""The handlers that are measured, in a process with OpenTelemetry's SDK: spans are made, gathered and thrown away."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from bench.handlers import registry

__all__ = ["registry"]


class Drop(SpanExporter):
    """A collector that takes everything at once."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(Drop()))
trace.set_tracer_provider(provider)
