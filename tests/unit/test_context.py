"""The context of a handler: what it knows of its job, and what it asks for, checked in its own line."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from support.attempts import make_attempt, make_job
from wakeful import InvalidPayload, JobContext, JobDeadlineExceeded, LeaseLost, Registry
from wakeful.core.outcome import AlertRequest, FollowUp
from wakeful.handlers.buffer import NOTHING
from wakeful.handlers.threads import open_threads


@dataclass(frozen=True)
class Build:
    place_id: str
    pages: int = 1


@dataclass
class Hostile:
    name: str = ""

    def __getattribute__(self, name: str) -> object:
        if name == "name":
            raise SystemExit("no name for you")
        return object.__getattribute__(self, name)


CIRCLE: dict[str, object] = {}
CIRCLE["again"] = CIRCLE

registry = Registry()


@registry.job("BUILD")
async def build(job: JobContext, payload: Build) -> None: ...


async def make_context(**fields: Any) -> JobContext:
    async with open_threads(limit=1, stuck_limit=1) as threads:
        return make_attempt(threads, job=make_job(**fields)).job


async def test_a_context_tells_of_its_job() -> None:
    job = await make_context(payload_text='{"n": 9007199254740993}', attempts=2, run_no=7)

    assert (job.job_type, job.queue, job.priority, job.subject) == ("COLLECT", "default", "normal", "abc")
    assert (job.attempt, job.max_attempts, job.run_no, job.tags) == (2, 5, 7, ("a",))
    assert job.payload == {"n": 9007199254740993}
    assert job.meta == {"traceparent": "00-1"}
    assert job.label == "COLLECT 01980000-0000-7000-8000-000000000001 run 7"


async def test_a_payload_is_read_when_it_is_looked_at_and_then_kept() -> None:
    async with open_threads(limit=1, stuck_limit=1) as threads:
        port = make_attempt(threads).job._port
    unread = JobContext(make_job(payload_text='{"n": [1]}'), None, port)
    too_deep = JobContext(make_job(payload_text=f'{{"n": {"[" * 100_000}{"]" * 100_000}}}'), None, port)

    assert unread.payload == {"n": [1]}
    assert unread.payload is unread.payload
    assert too_deep.job_type == "COLLECT"
    with pytest.raises(InvalidPayload, match="nested too deeply"):
        _ = too_deep.payload


async def test_what_is_asked_for_before_the_end_is_given_and_nothing_made_where_nothing_was() -> None:
    asking, silent = await make_context(), await make_context()
    asking.degrade("r")

    assert asking.close().degraded == ("r",)
    assert silent.close() is NOTHING


async def test_a_context_knows_how_long_it_has_and_whether_to_stop() -> None:
    async with open_threads(limit=1, stuck_limit=1) as threads:
        attempt = make_attempt(threads)

        assert attempt.job.time_left() == 60.0
        attempt.clock.seconds += 59
        assert attempt.job.time_left() == 1.0
        assert not attempt.job.cancelled
        attempt.clock.seconds += 59
        assert attempt.job.time_left() == 0.0
        attempt.control.cancel(JobDeadlineExceeded("after 60 s"))
        assert attempt.job.cancelled


async def test_follow_ups_are_kept_in_order_with_their_options() -> None:
    job = await make_context()

    job.enqueue(
        "BUILD",
        {"price": Decimal("0.12345678901234567890123"), "id": UUID(int=1)},
        queue="sites",
        priority="interactive",
        subject="x",
        dedupe_key="build:1",
        run_after=datetime(2026, 3, 1, tzinfo=UTC),
        max_attempts=3,
        deadline="10m",
        tags=["a"],
        meta={"b": 1},
        group="g",
        limit_key="l",
    )
    job.enqueue("PLAIN")
    job.enqueue(build, Build("abc"))
    job.enqueue(build, {"place_id": "abc"})
    first, *others = job.close().follow_ups

    assert (
        first.payload_text
        == '{"price":0.12345678901234567890123,"id":"00000000-0000-0000-0000-000000000001"}'
    )
    assert json.loads(first.options_text) == {
        "queue": "sites",
        "priority": "interactive",
        "subject": "x",
        "dedupe_key": "build:1",
        "run_after": "2026-03-01T00:00:00+00:00",
        "max_attempts": 3,
        "deadline": 600.0,
        "tags": ["a"],
        "meta": {"b": 1},
        "group": "g",
        "limit_key": "l",
    }
    assert others == [
        FollowUp(job_type="PLAIN", payload_text="{}", options_text="{}"),
        FollowUp(job_type="BUILD", payload_text='{"place_id":"abc","pages":1}', options_text="{}"),
        FollowUp(job_type="BUILD", payload_text='{"place_id":"abc"}', options_text="{}"),
    ]


@pytest.mark.parametrize(
    ("job_type", "payload", "options", "problem"),
    [
        ("", {}, {}, "job type is empty"),
        ("B\nC", {}, {}, "job type contains a control character"),
        ("B", [1], {}, "the payload can't be stored: a list is not a JSON object"),
        ("B", {"a": {"b": {object()}}}, {}, r"the payload can't be stored: \$: object is not a JSON value"),
        ("B", CIRCLE, {}, r"the payload can't be stored: \$: nested too deeply"),
        ("B", Hostile(), {}, "the payload can't be stored: no name for you"),
        ("B", {"a": [b"bytes"]}, {}, r"the payload can't be stored: \$\.a\[0\]: bytes is not a JSON value"),
        ("B", {"a": "x\x00"}, {}, r"\$\.a: contains a NUL"),
        ("B", {"a": float("nan")}, {}, r"\$\.a: nan is not a JSON number"),
        ("B", {"a": "x" * 1024 * 1024}, {}, r"the payload is 1048585 bytes long; at most 1048576"),
        ("B", {}, {"priority": "high"}, "priority is none of interactive, normal, batch"),
        ("B", {}, {"queue": "", "subject": "x" * 1001}, "queue is empty; subject is 1001 bytes long"),
        ("B", {}, {"dedupe_key": "\n"}, "dedupe_key contains a control character"),
        ("B", {}, {"run_after": datetime(2026, 1, 1)}, "run_after has no time zone"),  # noqa: DTZ001 -- the point
        (
            "B",
            {},
            {"run_after": datetime.now(UTC) + timedelta(days=3700)},
            "run_after is not within ten years",
        ),
        ("B", {}, {"run_after": "tomorrow"}, "run_after is a str, not a datetime"),
        ("B", {}, {"max_attempts": 0}, "max_attempts is out of range"),
        ("B", {}, {"deadline": "never"}, "deadline is wrong: 'never' is not a duration"),
        ("B", {}, {"deadline": 0}, "deadline is out of range"),
        ("B", {}, {"tags": "abc"}, "tags is not a list of strings"),
        ("B", {}, {"tags": ["x"] * 21}, "tags are 21; at most 20"),
        ("B", {}, {"tags": ["x" * 2001]}, "tags: their text is 2001 bytes long"),
        ("B", {}, {"meta": []}, "meta is a list, not a mapping"),
        ("B", {}, {"meta": {"a": "x" * 20000}}, "meta: its text is 20009 bytes long"),
        ("B", {}, {"meta": {"a": object()}}, r"meta: \$\.a: object is not a JSON value"),
    ],
)
async def test_a_mistake_is_raised_in_the_handlers_own_line(
    job_type: str, payload: Any, options: dict[str, Any], problem: str
) -> None:
    job = await make_context()

    with pytest.raises(ValueError, match=problem):
        job.enqueue(job_type, payload, **options)
    assert job.close().follow_ups == ()


async def test_a_payload_for_a_registered_handler_is_checked_against_its_type() -> None:
    job = await make_context()

    with pytest.raises(InvalidPayload, match=r"\$\.plce: unknown field, did you mean"):
        job.enqueue(build, {"place_id": "a", "plce": 1})
    with pytest.raises(InvalidPayload, match=r"\$\.place_id: is missing"):
        job.enqueue(build)


async def test_follow_ups_are_bounded() -> None:
    job = await make_context()
    for _ in range(64):
        job.enqueue("B", {"a": "x" * 1_000_000})

    job.enqueue("B", {"a": "x" * 1_000_000})
    job.enqueue("B", {"a": "x" * 1_000_000})
    job.enqueue("B", {"a": "x" * 1_000_000})
    with pytest.raises(ValueError, match="64 MiB together; enqueue one that enqueues the rest"):
        job.enqueue("B", {"a": "x" * 1_000_000})

    other = await make_context()
    for _ in range(10_000):
        other.enqueue("B")
    with pytest.raises(ValueError, match="at most 10000 others"):
        other.enqueue("B")


async def test_an_alert_is_kept_clean() -> None:
    job = await make_context(subject="a\nb")

    job.alert(
        "publish_failed", title="can't\npublish\x00 " + "x" * 2000, severity="error", body={"status": 500}
    )
    job.alert("other", title="", dedupe_key="k", subject="s")
    first, second = job.close().alerts

    assert first.title.startswith("can't publish\u2400 xxx")
    assert len(first.title.encode()) <= 1000
    assert (first.severity, first.subject, first.body_text) == ("error", "a b", '{"status":500}')
    assert second == AlertRequest(
        kind="other", title="other", severity="warning", dedupe_key="k", subject="s", body_text="{}"
    )


@pytest.mark.parametrize(
    ("kind", "options", "problem"),
    [
        ("Publish Failed", {}, "use small letters, digits, dots and underscores"),
        (
            "x",
            {"severity": "eror"},
            "severity 'eror' is none of info, warning, error, critical, did you mean 'error'?",
        ),
        ("x", {"dedupe_key": ""}, "dedupe_key is empty"),
        ("x", {"body": [1]}, "the alert's body can't be stored: a list is not a JSON object"),
        ("x", {"body": {"a": "x" * 70_000}}, "the alert's body is 70009 bytes long; at most 65536"),
    ],
)
async def test_a_wrong_alert_is_refused(kind: str, options: dict[str, Any], problem: str) -> None:
    job = await make_context()

    with pytest.raises(ValueError, match=problem):
        job.alert(kind, title="t", **options)


async def test_alerts_are_bounded() -> None:
    job = await make_context()
    for number in range(100):
        job.alert("x", title=str(number))

    with pytest.raises(ValueError, match="at most 100 alerts"):
        job.alert("x", title="one more")


async def test_reasons_of_a_degraded_job_are_clean_few_and_said_once() -> None:
    job = await make_context()
    for reason in ("copy provider down", "copy provider down", "x\x00" * 1000, *map(str, range(100))):
        job.degrade(reason)
    degraded = job.close().degraded

    assert degraded[0] == "copy provider down"
    assert degraded[1].startswith("x\u2400")
    assert len(degraded) == 50


async def test_after_the_attempt_nothing_more_can_be_asked_for() -> None:
    job = await make_context()
    job.close()

    with pytest.raises(LeaseLost, match="this attempt is over"):
        job.enqueue("B")
    with pytest.raises(LeaseLost, match="this attempt is over"):
        job.alert("x", title="t")
    with pytest.raises(LeaseLost, match="this attempt is over"):
        job.degrade("r")


async def test_many_threads_may_ask_at_once() -> None:
    job = await make_context()

    def ask() -> None:
        for _ in range(100):
            job.enqueue("B")

    threads = [threading.Thread(target=ask) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(job.close().follow_ups) == 1000
