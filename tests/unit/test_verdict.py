"""From a handler's answer to its outcome: the reason of a stop before what the handler made of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from wakeful import Discard, Fail, RateLimited, Retry, Snooze
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
from wakeful.errors import JobCancelled, JobDeadlineExceeded, JobInterrupted, LeaseLost
from wakeful.handlers.buffer import Buffered
from wakeful.handlers.control import StopReason
from wakeful.handlers.invoke import Answer, Raised, Returned
from wakeful.runtime.verdict import Circumstances, verdict, without_secrets
from wakeful.telemetry.redaction import Redactor

ALERT = AlertRequest(kind="k", title="t", severity="error", dedupe_key=None, subject=None, body_text="{}")
BUFFERED = Buffered(
    follow_ups=(FollowUp(job_type="B", payload_text="{}", options_text="{}"),),
    alerts=(ALERT,),
    degraded=("copy",),
)
CANCELLED = Raised(asyncio.CancelledError())


class Unprintable(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


def judge(
    answer: Answer,
    *,
    reason: StopReason | None = None,
    fenced: bool = False,
    snoozed: float = 0.0,
    snooze_limit: float = 100.0,
    history: bool = True,
    delay: Callable[[], float] = lambda: 7.0,
) -> Any:
    circumstances = Circumstances(
        reason=reason,
        fenced=fenced,
        snoozed=snoozed,
        snooze_limit=snooze_limit,
        history=history,
        delay=delay,
    )
    return verdict(answer, BUFFERED, circumstances)


def test_what_is_returned_is_done_with_all_that_was_asked_for() -> None:
    outcome = judge(Returned({"a": 1}), history=False)

    assert isinstance(outcome, Done)
    assert outcome.result_text == '{"a":1}'
    assert (outcome.follow_ups, outcome.alerts) == (BUFFERED.follow_ups, BUFFERED.alerts)
    assert outcome.degraded == ("copy",)
    assert not outcome.history


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), object(), "\ud800", "a\x00b", {"x": {1: object()}}]
)
def test_a_result_that_can_not_be_stored_fails_the_attempt_and_says_why(value: object) -> None:
    outcome = judge(Returned(value))

    assert isinstance(outcome, Failed)
    assert outcome.error.type == "ResultRefused"
    assert "the result can't be stored" in outcome.error.message
    assert (outcome.retry, outcome.delay) == (True, 7.0)


def test_a_result_too_large_fails_the_attempt_and_says_so() -> None:
    outcome = judge(Returned("x" * (1024 * 1024)))

    assert isinstance(outcome, Failed)
    assert "at most 1048576 are allowed" in outcome.error.message


def test_anything_raised_is_a_failure_with_its_type_message_and_traceback() -> None:
    try:
        raise ValueError("no such\x00place")
    except ValueError as error:
        outcome = judge(Raised(error))

    assert isinstance(outcome, Failed)
    assert outcome.error.summary == "ValueError: no such␀place"
    assert "test_verdict.py" in (outcome.error.traceback or "")
    assert (outcome.retry, outcome.delay, outcome.alerts) == (True, 7.0, BUFFERED.alerts)


@pytest.mark.parametrize(
    "raised", [SystemExit(1), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit(), Unprintable()]
)
def test_nothing_that_is_raised_is_more_than_a_failed_attempt(raised: BaseException) -> None:
    outcome = judge(Raised(raised))

    assert isinstance(outcome, Failed)
    assert outcome.error.type == type(raised).__name__


def test_a_retry_waits_at_least_as_long_as_it_says_and_at_most_a_fifth_longer() -> None:
    delays = [judge(Raised(Retry(100, "busy"))).delay for _ in range(200)]

    assert all(100 <= delay <= 120 for delay in delays)
    assert max(delays) - min(delays) > 5
    outcome = judge(Raised(Retry(0)))
    assert (outcome.delay, outcome.retry, outcome.error.type) == (0.0, True, "Retry")


@pytest.mark.parametrize("directive", [Snooze(60, "not yet"), RateLimited(60, "429")])
def test_a_snooze_gives_the_attempt_back(directive: Snooze) -> None:
    outcome = judge(Raised(directive))

    assert isinstance(outcome, Snoozed)
    assert 60 <= outcome.delay <= 72


def test_a_job_may_snooze_for_so_long_in_all_and_no_longer() -> None:
    assert isinstance(judge(Raised(Snooze(40)), snoozed=60.0), Snoozed)
    outcome = judge(Raised(Snooze(41, "again and again")), snoozed=60.0)

    assert isinstance(outcome, Failed)
    assert outcome.error.type == "SnoozedTooLong"
    assert "again and again" in outcome.error.message


@pytest.mark.parametrize("after", [float("inf"), float("nan"), 1e300])
def test_a_snooze_for_ever_is_too_long(after: float) -> None:
    assert isinstance(judge(Raised(Snooze(after))), Failed)


@pytest.mark.parametrize("after", [0, 0.01, -5])
def test_no_snooze_is_so_short_that_a_job_goes_round_at_full_speed(after: float) -> None:
    assert 1.0 <= judge(Raised(RateLimited(after))).delay <= 1.2
    assert isinstance(judge(Raised(RateLimited(after)), snoozed=99.5), Failed)


@pytest.mark.parametrize("retry", [True, False])
def test_a_fail_says_whether_it_is_final(retry: bool) -> None:
    outcome = judge(Raised(Fail("no such place", retry=retry)))

    assert isinstance(outcome, Failed)
    assert (outcome.error.summary, outcome.retry) == ("Fail: no such place", retry)


@pytest.mark.parametrize("reason", ["a\x00b\ud800", object(), Unprintable(), "x" * 100_000])
def test_a_reason_may_be_anything_at_all(reason: Any) -> None:
    for directive in (Fail(reason), Discard(reason), Retry(1, reason), Snooze(1, reason)):
        outcome = judge(Raised(directive))
        text = outcome.error.message if isinstance(outcome, Failed) else outcome.reason
        assert len(text.encode()) <= 16 * 1024
        assert "\x00" not in text


def test_a_discard_is_cancelled() -> None:
    outcome = judge(Raised(Discard("not needed")))

    assert outcome == Discarded(reason="not needed", alerts=BUFFERED.alerts)


@pytest.mark.parametrize(
    "answer", [CANCELLED, Raised(ValueError("in clean-up")), Returned(1), Raised(Snooze(1))]
)
def test_past_its_deadline_an_attempt_has_failed_whatever_the_handler_makes_of_it(answer: Answer) -> None:
    outcome = judge(answer, reason=JobDeadlineExceeded("ran for more than 2 s"))

    assert isinstance(outcome, Failed)
    assert outcome.error.summary == "JobDeadlineExceeded: ran for more than 2 s"
    assert (outcome.retry, outcome.delay) == (True, 7.0)


STOPS: list[tuple[StopReason, type]] = [
    (JobCancelled("cancelled on request"), Discarded),
    (JobInterrupted("stopping"), HandedBack),
    (LeaseLost("another claim"), HandedBack),
]


@pytest.mark.parametrize(("reason", "outcome"), STOPS)
@pytest.mark.parametrize("answer", [CANCELLED, Raised(RuntimeError("the client is closed"))])
def test_a_stop_is_told_apart_by_its_reason(reason: StopReason, outcome: type, answer: Answer) -> None:
    assert isinstance(judge(answer, reason=reason), outcome)


@pytest.mark.parametrize("reason", [reason for reason, _ in STOPS])
def test_a_handler_that_returned_all_the_same_has_done_its_work(reason: StopReason) -> None:
    assert isinstance(judge(Returned(1), reason=reason), Done)


def test_only_a_job_that_was_interrupted_counts_as_handed_back() -> None:
    assert judge(CANCELLED, reason=JobInterrupted("stopping")).counted
    assert not judge(CANCELLED, reason=LeaseLost("another claim")).counted


def test_an_attempt_that_we_fenced_ourselves_counts_as_lost() -> None:
    outcome = judge(CANCELLED, reason=LeaseLost("no heartbeat got through for 24 s"), fenced=True)

    assert isinstance(outcome, Fenced)
    assert outcome.reason == "lease-expired reclaim: no heartbeat got through for 24 s"


def test_a_fenced_attempt_that_finished_its_work_is_done_if_the_fence_lets_it() -> None:
    """The database decides: results are kept and sent, however late (I1)."""
    outcome = judge(Returned(1), reason=LeaseLost("no heartbeat got through for 24 s"), fenced=True)

    assert isinstance(outcome, Done)


@pytest.mark.parametrize(
    "outcome",
    [
        Failed(error=ErrorEntry(type="E", message="with s3cr3t", traceback="at s3cr3t"), delay=1.0),
        Discarded(reason="no s3cr3t"),
        Done(result_text="{}", degraded=("without s3cr3t",)),
    ],
)
def test_no_secret_of_the_process_is_in_what_people_read(outcome: Outcome) -> None:
    assert "s3cr3t" in repr(outcome)
    assert "s3cr3t" not in repr(without_secrets(outcome, Redactor(["s3cr3t"])))
