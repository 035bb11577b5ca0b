"""Handlers for processes of their own with OpenTelemetry: they tell what they see of the attempt's trace."""

from __future__ import annotations

import logging
import os

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider

from wakeful import JobContext, Registry

registry = Registry()
if "HIDE_INSTRUMENTATION" in os.environ:  # as releases of opentelemetry-instrument did that still are in use
    kept = [one for one in os.environ["PYTHONPATH"].split(os.pathsep) if "auto_instrumentation" not in one]
    os.environ["PYTHONPATH"] = os.pathsep.join(kept)
# Not the global one, which the tests' process has, too: there this module is only imported.
provider = TracerProvider()


def _shown(span: trace.Span) -> dict[str, object]:
    parent = span.parent if isinstance(span, ReadableSpan) else None
    return {
        "span": trace.format_span_id(span.get_span_context().span_id),
        "trace": trace.format_trace_id(span.get_span_context().trace_id),
        "parent": None if parent is None else trace.format_span_id(parent.span_id),
    }


@registry.job("SEE", isolation="process", deadline=60)
async def see(job: JobContext) -> object:
    return _seen(job)


@registry.job("SEE_IN_THREAD", isolation="process", deadline=60)
def see_in_thread(job: JobContext) -> object:
    return _seen(job)


def _seen(job: JobContext) -> object:
    job.enqueue("LATER")
    around = _shown(trace.get_current_span())
    with provider.get_tracer("handler").start_as_current_span("request") as own:
        return {"around": around, "own": _shown(own)}


@registry.job("STEP", isolation="process", deadline=60)
async def step(job: JobContext) -> None:
    async with job.step("apart"):
        pass


@registry.job("SAY", isolation="process", deadline=60, secret=["token"])
async def say(job: JobContext) -> None:
    logging.getLogger("shop").warning("said %s", job.payload["token"])


@registry.job("CRASH", isolation="process", deadline=60)
async def crash(job: JobContext) -> None:
    os._exit(3)
