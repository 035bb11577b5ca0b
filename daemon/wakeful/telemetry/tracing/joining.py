"""The way to OpenTelemetry for all who are not `spans`: whether this process has it, and what is done without it.

Invariant: nothing here raises, and without OpenTelemetry everything is nothing. No program loads it for our sake, but
a daemon whose environment names a provider: where nobody has loaded its API there is no SDK, and no span to link to.
"""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from wakeful.telemetry.tracing.carrier import Carrier

if TYPE_CHECKING:
    from wakeful.telemetry.tracing.blocks import Block, Sending
    from wakeful.telemetry.tracing.spans import Spans

_API: Final = "opentelemetry.trace"
_PROVIDER: Final = "OTEL_PYTHON_TRACER_PROVIDER"  # what the API loads by itself when it is first asked
_INSTRUMENTED: Final = "opentelemetry.instrumentation.auto_instrumentation"


class Failure(NamedTuple):
    """What went wrong, as a span tells it; cleaned of secrets by who makes it."""

    type: str
    message: str
    traceback: str | None = None


class NotSending:
    """What stands for the span of an enqueue where there is none."""

    carrier: Final = None

    def __enter__(self) -> NotSending:
        return self

    def __exit__(self, *_raised: object) -> None: ...

    def sent(self, _job_id: object, *, created: bool) -> None:
        """Nobody is told."""


_NOT_SENDING: Final = NotSending()


def sending(job_type: str, queue: str | None) -> Sending | NotSending:
    """Give the block in which a job is enqueued: a span of its own, whose context the job is to carry."""
    module = _loaded()
    if module is None:
        return _NOT_SENDING
    with suppress(Exception):  # somebody else's tracer
        block: Sending = module.sending(job_type, queue)
        return block
    return _NOT_SENDING


def created(job_type: str, queue: str | None) -> Carrier | None:
    """Give what a job is to carry that is made now and enqueued later, with the end of the one that runs."""
    module = _loaded()
    with suppress(Exception):  # somebody else's tracer
        carrier: Carrier | None = None if module is None else module.created(job_type, queue)
        return carrier
    return None


def step_block(name: str) -> Block | None:
    """Give a begun span for a step of the attempt that runs in this context, where that is traced."""
    module = _loaded()
    with suppress(Exception):  # somebody else's tracer
        block: Block | None = None if module is None else module.step_block(name)
        return block
    return None


def current_carrier() -> Carrier | None:
    """Give the trace context of the code that asks."""
    module = _loaded()
    with suppress(Exception):  # somebody else's span
        carrier: Carrier | None = None if module is None else module.current_carrier()
        return carrier
    return None


def within_remote(carrier: Carrier | None) -> AbstractContextManager[None]:
    """Give the block in which an attempt runs whose span is another process's."""
    module = None if carrier is None else _loaded()
    with suppress(Exception):  # somebody else's tracer
        block: AbstractContextManager[None] = (
            nullcontext() if module is None else module.within_remote(carrier)
        )
        return block
    return nullcontext()


def spans_of_process() -> Spans | None:
    """Give what makes this process's spans, where an SDK is set up in it by now."""
    module = _module() if _PROVIDER in os.environ else _loaded()
    with suppress(Exception):  # somebody else's provider
        spans: Spans | None = None if module is None else module.spans_with_sdk()
        return spans
    return None


def is_instrumented() -> bool:
    """Whether `opentelemetry-instrument` started this process."""
    return _INSTRUMENTED in sys.modules


def instrument() -> None:
    """Do here what `opentelemetry-instrument` did in the parent, which some releases keep from all children."""
    if is_instrumented():
        return
    with suppress(Exception):  # as there: what can't be instrumented runs without
        importlib.import_module(_INSTRUMENTED).initialize()


def _loaded() -> Any:
    return _module() if _API in sys.modules else None


@cache
def _module() -> Any:
    """The module that imports the library; None where that is not installed, or one that we do not know."""
    try:
        return importlib.import_module("wakeful.telemetry.tracing.spans")
    except Exception:  # noqa: BLE001 -- a library that is broken or of another age is as good as none
        return None
