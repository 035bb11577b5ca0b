"""One attempt's end, on its way into the database: what is to be written, and who wants to know that it was.

Invariant: a conclusion is settled exactly once, as *landed* (the database has taken it, now or by an earlier try whose
reply was lost), *lost* (another claim or none holds the job) or *unknown* (no trace is left).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, assert_never

from wakeful.core import jsontext
from wakeful.core.outcome import (
    AlertRequest,
    Discarded,
    Done,
    ErrorEntry,
    Failed,
    Fenced,
    FollowUp,
    HandedBack,
    Outcome,
    Snoozed,
)
from wakeful.core.text import ERROR_LIMIT_BYTES, clean
from wakeful.runtime.holdings import Holding
from wakeful.store.jobs import Finish, Settlement, Status, Verb

if TYPE_CHECKING:
    from wakeful.telemetry.tracing.blocks import AttemptTrace

Fate = Status | Literal["lost", "unknown"]


class Landing(NamedTuple):
    """What became of a conclusion; `delay` (seconds) is for a PENDING job."""

    fate: Fate
    delay: float = 0.0


DONE: Final = Landing(fate="DONE")


class Conclusion:
    """The outcome of an attempt that ran for `run` seconds; `landed` is called once, when it is settled."""

    __slots__ = ("holding", "landed", "outcome", "run")

    def __init__(
        self,
        holding: Holding,
        outcome: Outcome,
        *,
        run: float = 0.0,
        landed: Callable[[Landing], None] | None = None,
    ) -> None:
        self.holding, self.outcome, self.run, self.landed = holding, outcome, run, landed

    def instead(self, outcome: Outcome) -> Conclusion:
        """The same with another outcome."""
        return Conclusion(self.holding, outcome, run=self.run, landed=self.landed)

    @property
    def extras(self) -> tuple[tuple[FollowUp, ...], tuple[AlertRequest, ...]]:
        """Follow-up jobs and alerts that are committed together with it."""
        match self.outcome:
            case Done():
                return self.outcome.follow_ups, self.outcome.alerts
            case Failed() | Discarded():
                return (), self.outcome.alerts
            case _:
                return (), ()

    @property
    def alone(self) -> bool:
        """Whether it needs a transaction of its own, since what it brings along may wait for a lock (I2)."""
        outcome = self.outcome
        if isinstance(outcome, Done):  # nearly all are
            return bool(outcome.follow_ups or outcome.alerts)
        return any(self.extras)

    def as_finish(self) -> Finish:
        """The row of finish_jobs, for a Done."""
        outcome, job = self.outcome, self.holding.job
        assert isinstance(outcome, Done)
        degraded = jsontext.dumps(list(outcome.degraded)) if outcome.degraded else None
        # As its own constructor does, by a call more for each job.
        return tuple.__new__(Finish, (job.pos, job.claim, outcome.result_text, degraded, outcome.history))

    def as_settlement(self) -> Settlement:
        """The row of settle_jobs, for everything but a Done."""
        verb, reason, entry, delay = _settlement(self.outcome)
        return Settlement(
            pos=self.holding.pos,
            claim=self.holding.claim,
            verb=verb,
            reason=reason,
            entry=None if entry is None else _entry_text(entry, self.holding.trace),
            delay=delay,
        )


def _settlement(outcome: Outcome) -> tuple[Verb, str | None, ErrorEntry | None, float]:
    match outcome:
        case Failed():
            verb: Verb = "fail" if outcome.retry else "refuse"
            return verb, outcome.error.summary, outcome.error, outcome.delay
        case Snoozed():
            return "snooze", None, None, outcome.delay
        case HandedBack():
            return "hand_back" if outcome.counted else "put_back", None, None, outcome.delay
        case Discarded():
            return "discard", outcome.reason, None, 0.0
        case Fenced():
            return "lose", outcome.reason, None, 0.0
        case Done():
            raise AssertionError("a Done is a row of finish_jobs")
        case _:
            assert_never(outcome)


def _entry_text(entry: ErrorEntry, trace: AttemptTrace | None) -> str:
    fields = {"type": entry.type, "message": entry.message, "traceback": entry.traceback}
    if entry.fingerprint is not None:
        fields["fingerprint"] = entry.fingerprint
    if trace is not None and trace.traceparent is not None:
        fields["traceparent"] = trace.traceparent
    try:
        return jsontext.dumps(fields)
    except ValueError:  # texts are clean by construction; should one not be, no flush may fail for it
        return jsontext.dumps(
            {name: text and clean(text, ERROR_LIMIT_BYTES) for name, text in fields.items()}
        )
