"""Attempts as traces, by OpenTelemetry's own SDK: whom they belong to, how they end, and what is a part of them."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from typing import Any

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

import wakeful
from support.databases import ClonedDatabase, Connection
from support.factories import enqueue, status_of
from support.running import brisk, running
from support.tracing import context_of, ids, linked_to, outcomes, traced_process
from support.working import job_row
from wakeful import Discard, Fail, JobContext, RateLimited, Registry, Retry, Snooze
from wakeful.core.settings import Settings, TracingMode, TracingSettings
from wakeful.telemetry.events import JOB_DIED, JOB_FINISHED, JOB_STARTED
from wakeful.telemetry.job_log import names_of_current_attempt

RUN = "process default"


@dataclass(frozen=True)
class Place:
    place_id: str


def by(mode: TracingMode) -> Settings:
    return replace(brisk(), tracing=TracingSettings(mode=mode))


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def registry_of(function: Any, **options: Any) -> Registry:
    registry = Registry()
    registry.job("JOB", **options)(function)
    return registry


async def nothing(job: JobContext) -> None: ...


async def test_an_attempt_is_a_trace_of_its_own_linked_to_who_enqueued_it(
    db: ClonedDatabase, sql: Connection
) -> None:
    with traced_process() as traces:
        async with running(db, registry_of(nothing)):
            with traces.tracer.start_as_current_span("request"):
                job_id = (await wakeful.enqueue(sql, "JOB", queue="default")).job_id
            (run,) = await traces.ended(RUN)

    (sent,), (request,) = traces.named("send default"), traces.named("request")
    assert run.parent is None
    assert linked_to(run) == [ids(sent)]
    assert sent.parent is not None and sent.parent.span_id == ids(request)[1]
    assert (sent.kind, run.kind, run.status.status_code) == (
        SpanKind.PRODUCER,
        SpanKind.CONSUMER,
        StatusCode.UNSET,
    )
    assert attributes(sent)["messaging.message.id"] == str(job_id)
    told = attributes(run)
    assert 0 <= told.pop("wakeful.wait_seconds") < 60
    assert told == {
        "messaging.system": "wakeful",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "default",
        "messaging.message.id": str(job_id),
        "wakeful.job_type": "JOB",
        "wakeful.attempt": 1,
        "wakeful.max_attempts": 5,
        "wakeful.run_no": 1,
        "wakeful.priority": "normal",
        "wakeful.outcome": "finished",
    }


async def test_as_a_parent_the_producer_has_the_first_run_in_its_trace_and_later_ones_are_linked(
    db: ClonedDatabase, sql: Connection
) -> None:
    async def fails_once(job: JobContext) -> None:
        if job.attempt == 1:
            raise ValueError("not yet")

    with traced_process() as traces:
        async with running(db, registry_of(fails_once, backoff=lambda _: 0), settings=by("parent")):
            await wakeful.enqueue(sql, "JOB")
            first, second = await traces.ended(RUN, 2)

    (sent,) = traces.named("send")
    assert first.parent is not None
    assert (first.parent.trace_id, first.parent.span_id, first.links) == (*ids(sent), ())
    assert second.parent is None
    assert ids(second)[0] != ids(sent)[0]
    assert linked_to(second) == [ids(sent)]
    assert outcomes([first, second]) == ["retried", "finished"]


async def raises(job: JobContext) -> None:
    raise ValueError("it is broken")


async def dies(job: JobContext) -> None:
    raise Fail("never")


async def waits(job: JobContext) -> None:
    raise Snooze(60)


async def is_limited(job: JobContext) -> None:
    raise RateLimited(60)


async def tries_again(job: JobContext) -> None:
    raise Retry(60, "later")


async def gives_up(job: JobContext) -> None:
    raise Discard("not needed")


async def sleeps(job: JobContext) -> None:
    await anyio.sleep(60)


def returns_what_no_database_takes(job: JobContext) -> object:
    return object()


@pytest.mark.parametrize(
    ("handler", "outcome", "error"),
    [
        (raises, "retried", "ValueError"),
        (tries_again, "retried", "Retry"),
        (returns_what_no_database_takes, "retried", "ResultRefused"),
        (dies, "died", "Fail"),
        (sleeps, "retried", "JobDeadlineExceeded"),
        (waits, "snoozed", None),
        (is_limited, "snoozed", None),
        (gives_up, "cancelled", None),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
async def test_a_span_ends_with_what_became_of_its_attempt_and_only_a_failure_is_an_error(
    db: ClonedDatabase, sql: Connection, handler: Any, outcome: str, error: str | None
) -> None:
    with traced_process() as traces:
        async with running(db, registry_of(handler, deadline=0.3 if handler is sleeps else 60)):
            await enqueue(sql, "JOB")
            (run,) = await traces.ended(RUN)

    told = attributes(run)
    assert (told["wakeful.outcome"], told.get("error.type")) == (outcome, error)
    assert run.status.status_code is (StatusCode.UNSET if error is None else StatusCode.ERROR)
    assert [event.name for event in run.events] == ([] if error is None else ["exception"])


async def test_an_attempt_that_is_cancelled_or_handed_back_ends_its_span_without_an_error(
    db: ClonedDatabase, sql: Connection
) -> None:
    with traced_process() as traces:
        async with running(db, registry_of(sleeps)) as one:
            cancelled = (await enqueue(sql, "JOB")).job_id
            await one.recorder.seen(JOB_STARTED, job_id=cancelled)
            await sql.execute("select wakeful.cancel($1)", cancelled)
            await traces.ended(RUN)
            interrupted = (await enqueue(sql, "JOB")).job_id
            await one.recorder.seen(JOB_STARTED, job_id=interrupted)
            one.parts.attempts.interrupt_all()
            runs = await traces.ended(RUN, 2)

    assert outcomes(runs) == ["cancelled", "handed_back"]
    assert [run.status.status_code for run in runs] == [StatusCode.UNSET, StatusCode.UNSET]


async def test_an_attempt_whose_job_is_anothers_by_now_ends_its_span_as_lost(
    db: ClonedDatabase, sql: Connection
) -> None:
    going_on = anyio.Event()

    async def holds(job: JobContext) -> None:
        await going_on.wait()

    with traced_process() as traces:
        async with running(db, registry_of(holds), beat=False) as one:
            job_id = (await enqueue(sql, "JOB")).job_id
            await one.recorder.seen(JOB_STARTED)
            await sql.execute("update wakeful.ready set claim = claim + 1 where job_id = $1", job_id)
            going_on.set()
            (run,) = await traces.ended(RUN)

    assert outcomes([run]) == ["lost"]
    assert attributes(run)["error.type"] == "LeaseLost"


async def test_a_payload_that_does_not_fit_has_a_span_although_no_handler_was_called(
    db: ClonedDatabase, sql: Connection
) -> None:
    async def takes(job: JobContext, payload: Place) -> None: ...

    with traced_process() as traces:
        async with running(db, registry_of(takes)):
            await enqueue(sql, "JOB", {"place_id": 7})
            (run,) = await traces.ended(RUN)

    assert (outcomes([run]), attributes(run)["error.type"]) == (["died"], "InvalidPayload")


async def test_what_was_never_written_ends_with_the_process(db: ClonedDatabase, sql: Connection) -> None:
    with traced_process() as traces:
        async with running(db, registry_of(sleeps)) as one:
            await enqueue(sql, "JOB")
            await one.recorder.seen(JOB_STARTED)
            assert one.parts.executing.tracing is not None
            one.parts.executing.tracing.close()
            (run,) = await traces.ended(RUN)
            one.parts.attempts.interrupt_all()

    assert outcomes([run]) == ["unwritten"]
    assert len(traces.named(RUN)) == 1


async def test_steps_and_a_handlers_own_spans_are_below_the_attempt_on_the_loop_and_in_a_thread(
    db: ClonedDatabase, sql: Connection
) -> None:
    registry, tracer = Registry(), trace.get_tracer("handler")

    @registry.job("ASYNC", queue="a")
    async def on_loop(job: JobContext) -> None:
        async with job.step("fetch"):
            with tracer.start_as_current_span("request"):
                await asyncio.to_thread(tracer.start_span("elsewhere").end)

    @registry.job("THREAD", queue="t")
    def in_thread(job: JobContext) -> None:
        with job.step("parse"), tracer.start_as_current_span("compute"):
            pass

    with traced_process() as traces:
        tracer = traces.tracer
        async with running(db, registry):
            await enqueue(sql, "ASYNC")
            await enqueue(sql, "THREAD")
            await traces.ended("process a")
            await traces.ended("process t")

    def parents(name: str) -> list[str]:
        (span,) = traces.named(name)
        chain = []
        by_id = {ids(one)[1]: one for one in traces.exporter.get_finished_spans()}
        while span.parent is not None:
            span = by_id[span.parent.span_id]
            chain.append(span.name)
        return chain

    assert parents("request") == ["fetch", "process a"]
    assert parents("compute") == ["parse", "process t"]


async def test_a_step_that_fails_is_an_error_and_one_that_is_put_off_is_none(
    db: ClonedDatabase, sql: Connection
) -> None:
    async def steps(job: JobContext) -> None:
        with pytest.raises(ValueError, match="broken"):
            async with job.step("first"):
                raise ValueError("broken")
        async with job.step("second"):
            raise Snooze(60)

    with traced_process() as traces:
        async with running(db, registry_of(steps)):
            await enqueue(sql, "JOB")
            await traces.ended(RUN)

    (first,), (second,) = traces.named("first"), traces.named("second")
    assert (first.status.status_code, attributes(first)["error.type"]) == (StatusCode.ERROR, "ValueError")
    assert second.status.status_code is StatusCode.UNSET


async def test_a_follow_up_is_linked_to_its_own_span_in_the_attempt_that_asked_for_it(
    db: ClonedDatabase, sql: Connection
) -> None:
    async def asks(job: JobContext) -> None:
        if job.queue == "default":
            job.enqueue("JOB", queue="next")

    with traced_process() as traces:
        async with running(db, registry_of(asks)):
            await enqueue(sql, "JOB")
            (following,) = await traces.ended("process next")
            (run,) = await traces.ended(RUN)

    (made,) = traces.named("create next")
    assert linked_to(following) == [ids(made)]
    assert made.parent is not None and made.parent.span_id == ids(run)[1]
    assert sum(point.value for point in traces.points("messaging.client.sent.messages")) == 1


@pytest.mark.parametrize(
    "text",
    ["x" * 10_000, "é" * 55, 7, None, "00-" + "0" * 52, ["a"]],
    ids=["long", "not ASCII", "number", "null", "zeros", "list"],
)
async def test_a_hostile_trace_context_costs_the_link_and_the_job_runs(
    db: ClonedDatabase, sql: Connection, text: object
) -> None:
    with traced_process() as traces:
        async with running(db, registry_of(nothing), settings=by("parent")):
            job_id = (await enqueue(sql, "JOB", meta={"traceparent": text, "tracestate": 7})).job_id
            (run,) = await traces.ended(RUN)

    assert (run.parent, run.links, outcomes([run])) == (None, (), ["finished"])
    assert await status_of(sql, job_id) == "DONE"


async def test_every_line_of_an_attempt_has_the_ids_of_the_span_that_is_current(
    db: ClonedDatabase, sql: Connection
) -> None:
    found: list[dict[str, object]] = []

    async def logs(job: JobContext) -> None:
        async with job.step("fetch"):
            found.append(dict(names_of_current_attempt()))
        found.append(dict(names_of_current_attempt()))

    with traced_process() as traces:
        async with running(db, registry_of(logs)) as one:
            await enqueue(sql, "JOB")
            finished = await one.recorder.seen(JOB_FINISHED)
            (run,) = await traces.ended(RUN)

    (step,) = traces.named("fetch")
    shown = [(f"{ids(span)[0]:032x}", f"{ids(span)[1]:016x}") for span in (step, run)]
    assert [(one["trace_id"], one["span_id"]) for one in found] == shown
    assert (finished["trace_id"], finished["span_id"]) == shown[1]


async def test_a_death_has_the_trace_of_its_attempt_in_its_history_and_in_its_alert(
    db: ClonedDatabase, sql: Connection
) -> None:
    with traced_process() as traces:
        async with running(db, registry_of(dies)) as one:
            job_id = (await enqueue(sql, "JOB")).job_id
            await one.recorder.seen(JOB_DIED)
            (run,) = await traces.ended(RUN)

    flags = context_of(run).trace_flags
    traceparent = f"00-{ids(run)[0]:032x}-{ids(run)[1]:016x}-{flags:02x}"
    row = await job_row(sql, job_id)
    assert [error["traceparent"] for error in row["errors"]] == [traceparent]
    body = await sql.fetchval("select body from wakeful.alert_outbox where kind = 'job_dead'")
    assert json.loads(body)["traceparent"] == traceparent


async def test_a_death_without_a_trace_says_nothing_of_one(db: ClonedDatabase, sql: Connection) -> None:
    async with running(db, registry_of(dies)) as one:
        job_id = (await enqueue(sql, "JOB")).job_id
        await one.recorder.seen(JOB_DIED)

    row = await job_row(sql, job_id)
    assert "traceparent" not in row["errors"][0]
    body = await sql.fetchval("select body from wakeful.alert_outbox where kind = 'job_dead'")
    assert "traceparent" not in json.loads(body)


async def test_how_long_handlers_ran_is_measured_by_queue_and_error(
    db: ClonedDatabase, sql: Connection
) -> None:
    async def fails_on_request(job: JobContext) -> None:
        if job.payload:
            raise ValueError

    with traced_process() as traces:
        async with running(db, registry_of(fails_on_request, max_attempts=1)):
            await enqueue(sql, "JOB")
            await enqueue(sql, "JOB", {"fail": True})
            await traces.ended(RUN, 2)
        points = traces.points("messaging.process.duration")

    assert sorted((point.count, point.attributes.get("error.type", "")) for point in points) == [
        (1, ""),
        (1, "ValueError"),
    ]
    assert {point.attributes["messaging.destination.name"] for point in points} == {"default"}


async def test_without_an_sdk_or_switched_off_a_job_goes_the_way_that_it_always_went(
    db: ClonedDatabase, sql: Connection
) -> None:
    async with running(db, registry_of(nothing)) as one:
        assert one.parts.executing.tracing is None
        assert one.parts.executing.submit == one.parts.finisher.submit
    with traced_process() as traces:
        async with running(db, registry_of(nothing), settings=by("off")) as one:
            job_id = (await enqueue(sql, "JOB")).job_id
            await one.recorder.seen(JOB_FINISHED)
            assert one.parts.executing.tracing is None

    assert traces.exporter.get_finished_spans() == ()
    assert await status_of(sql, job_id) == "DONE"


async def test_a_worker_goes_on_in_its_task_after_a_traced_job(db: ClonedDatabase, sql: Connection) -> None:
    workers: list[str] = []

    async def notes(job: JobContext) -> None:
        task = asyncio.current_task()
        assert task is not None
        workers.append(task.get_name())

    with traced_process() as traces:
        async with running(db, registry_of(notes), settings=brisk(concurrency=1)):
            await sql.execute("select wakeful.enqueue('JOB') from generate_series(1, 20)")
            await traces.ended(RUN, 20)

    assert len(set(workers)) == 1


async def test_the_older_name_of_the_operation_is_there_where_both_are_asked_for(
    db: ClonedDatabase, sql: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", "http, messaging/dup")
    with traced_process() as traces:
        async with running(db, registry_of(nothing)):
            await wakeful.enqueue(sql, "JOB")
            (run,) = await traces.ended(RUN)

    (sent,) = traces.named("send")
    assert (attributes(sent)["messaging.operation"], attributes(run)["messaging.operation"]) == (
        "publish",
        "process",
    )
