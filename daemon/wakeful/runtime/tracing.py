"""The traces of attempts: each begins when its handler is called, and ends with what the database has made of it.

Invariant: an attempt that was traced is ended once, whatever ends it: when its conclusion has landed, or with the
process where that was never written. A tracer that raises costs the span, is told once, and never the job. Without an
SDK in the process there is no `Tracing`, and attempts run as if this module were not there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from wakeful.core.outcome import Done, Failed, Fenced, Outcome
from wakeful.core.settings import TracingMode, TracingSettings
from wakeful.runtime.conclusion import Conclusion, Landing
from wakeful.runtime.endings import event_of
from wakeful.runtime.holdings import Holding
from wakeful.runtime.preparing import Executing
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import TRACING_FAILED
from wakeful.telemetry.job_log import AttemptContext, LineBuffer
from wakeful.telemetry.tracing.joining import Failure, spans_of_process

if TYPE_CHECKING:
    from wakeful.telemetry.tracing.blocks import AttemptTrace
    from wakeful.telemetry.tracing.spans import Spans

FLUSH_SECONDS: Final = 1.0


class Tracing:
    """Traces the attempts of one instance. Used on the event loop only."""

    __slots__ = ("_has_failed", "_open", "_spans", "_telemetry", "mode")

    def __init__(self, spans: Spans, mode: TracingMode, telemetry: Telemetry) -> None:
        self._spans = spans
        self._telemetry = telemetry
        self._has_failed = False
        self._open: dict[AttemptTrace, None] = {}
        self.mode = mode

    def within(self, holding: Holding, lines: LineBuffer) -> _Within:
        """Give the block in which the handler of a claim is called."""
        return _Within(self, holding, lines)

    def submitting(self, submit: Callable[[Conclusion], None]) -> Callable[[Conclusion], None]:
        """Give `submit` with an end of the trace when the conclusion has landed.

        A job that failed before its handler could be called has a trace, too: a short one, made here.
        """

        def submit_traced(conclusion: Conclusion) -> None:
            holding = conclusion.holding
            trace = holding.trace
            if trace is None and isinstance(conclusion.outcome, Failed):
                trace = self.begin(holding)
            if trace is not None:
                conclusion.landed = _Landed(self, trace, conclusion)
            submit(conclusion)

        return submit_traced

    def begin(self, holding: Holding) -> AttemptTrace | None:
        """Begin the trace of an attempt; None where the tracer fails."""
        try:
            trace = holding.trace = self._spans.attempt(holding.job, self.mode)
        except Exception as error:  # noqa: BLE001 -- a sampler, a processor or a provider of somebody else's
            self._tell(error)
            return None
        self._open[trace] = None
        return trace

    def landed(self, trace: AttemptTrace, conclusion: Conclusion, landing: Landing) -> None:
        """End a trace with what became of its attempt."""
        event = event_of(conclusion, landing)
        outcome = "put_back" if event is None else event.name.partition(".")[2]
        failure = failure_of(conclusion.outcome, landing)
        self._end(trace, outcome, wait=conclusion.holding.wait, failure=failure)
        if landing.fate == "DONE" and isinstance(conclusion.outcome, Done) and conclusion.outcome.follow_ups:
            self._count_sent(len(conclusion.outcome.follow_ups))

    def close(self) -> None:
        """End what has never landed, and have all exported: in a second at most, whatever the exporter does."""
        for trace in list(self._open):
            self._end(trace, "unwritten", wait=0.0, failure=Failure("Unwritten", "the process ended first"))
        flushing = threading.Thread(
            target=self._flush, args=(round(1000 * FLUSH_SECONDS),), name="wakeful-tracing", daemon=True
        )
        flushing.start()
        flushing.join(FLUSH_SECONDS)

    def _end(self, trace: AttemptTrace, outcome: str, *, wait: float, failure: Failure | None) -> None:
        self._open.pop(trace, None)
        try:
            trace.end(outcome, wait=wait, failure=failure)
        except Exception as error:  # noqa: BLE001 -- as for its begin
            self._tell(error)

    def _count_sent(self, jobs: int) -> None:
        try:
            self._spans.sent_later(jobs)
        except Exception as error:  # noqa: BLE001 -- as for its begin
            self._tell(error)

    def _flush(self, milliseconds: int) -> None:
        try:
            self._spans.flush(milliseconds)
        except Exception as error:  # noqa: BLE001 -- as for its begin
            self._tell(error)

    def _tell(self, error: Exception) -> None:
        if not self._has_failed:
            self._has_failed = True
            self._telemetry.emit(TRACING_FAILED, error=error)


class _Within:
    """The block of one attempt: its names on every line, its span as the current one."""

    __slots__ = ("_holding", "_lines", "_names", "_trace", "_tracing")

    def __init__(self, tracing: Tracing, holding: Holding, lines: LineBuffer) -> None:
        self._tracing, self._holding, self._lines = tracing, holding, lines

    def __enter__(self) -> None:
        self._trace = self._tracing.begin(self._holding)
        self._names = AttemptContext(self._trace or self._holding.job, self._lines)
        self._names.__enter__()
        if self._trace is not None:
            self._trace.enter()

    def __exit__(self, *raised: object) -> None:
        if self._trace is not None:
            self._trace.leave()
        self._names.__exit__(*raised)


class _Landed:
    """Called when a conclusion is settled: ends its trace, then tells who else wants to know."""

    __slots__ = ("_conclusion", "_then", "_trace", "_tracing")

    def __init__(self, tracing: Tracing, trace: AttemptTrace, conclusion: Conclusion) -> None:
        self._tracing, self._trace, self._conclusion = tracing, trace, conclusion
        self._then = conclusion.landed

    def __call__(self, landing: Landing) -> None:
        self._tracing.landed(self._trace, self._conclusion, landing)
        if self._then is not None:
            self._then(landing)


def traced(executing: Executing, settings: TracingSettings) -> Executing:
    """Give what executes attempts traced, where that is wanted and the process has an SDK by now; else as it is."""
    spans = None if settings.mode == "off" else spans_of_process()
    if spans is None:
        return executing
    tracing = Tracing(spans, settings.mode, executing.telemetry)
    submit = tracing.submitting(executing.submit)
    return replace(executing, submit=submit, within=tracing.within, tracing=tracing)


def failure_of(outcome: Outcome, landing: Landing) -> Failure | None:
    """What an attempt's span is marked with: a retry is a failure of its attempt; to be put off or stopped is none."""
    if landing.fate == "lost":
        return Failure("LeaseLost", "another claim holds the job by now, or none")
    if landing.fate not in ("PENDING", "DEAD"):
        return None
    match outcome:
        case Failed():
            return Failure(outcome.error.type, outcome.error.message, outcome.error.traceback)
        case Fenced():
            return Failure("LeaseLost", outcome.reason)
        case Done():  # it could not be stored, and a failure was in its place
            return Failure("OutcomeRefused", "the database refused the result")
        case _:
            return None
