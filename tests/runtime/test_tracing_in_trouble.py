"""Tracing where it is hard: enqueues that are refused, handlers in other processes, tracers and exporters that fail."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import pytest
from asyncpg import CheckViolationError
from opentelemetry.sdk.metrics import ExemplarFilter
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import Sampler
from opentelemetry.trace import (
    INVALID_SPAN,
    INVALID_SPAN_CONTEXT,
    NonRecordingSpan,
    StatusCode,
    Tracer,
    use_span,
)
from opentelemetry.trace import Span as SpanOfAny

import wakeful
from support import traced_jobs
from support.databases import ClonedDatabase, Connection
from support.factories import enqueue, status_of
from support.running import brisk, running
from support.tracing import context_of, ids, linked_to, outcomes, traced_process
from support.working import job_row
from wakeful import Fail, JobContext, OptionRefused, Registry
from wakeful.runtime.tracing import FLUSH_SECONDS
from wakeful.telemetry.events import JOB_DIED, JOB_FINISHED, TRACING_FAILED
from wakeful.telemetry.job_log import names_of_current_attempt

RUN = "process default"


def registry_of(function: Any) -> Registry:
    registry = Registry()
    registry.job("JOB")(function)
    return registry


async def nothing(job: JobContext) -> None: ...


async def steps(job: JobContext) -> None:
    async with job.step("first"):
        job.enqueue("LATER")


async def test_a_refused_enqueue_is_an_error_of_its_span_and_a_hit_names_the_active_job(
    sql: Connection,
) -> None:
    with traced_process() as traces:
        first = await wakeful.enqueue(sql, "JOB", dedupe_key="k", queue="q")
        second = await wakeful.enqueue(sql, "JOB", dedupe_key="k", queue="q")
        await sql.execute("update wakeful.installation set payload_limit = 100")
        with pytest.raises(OptionRefused):
            await wakeful.enqueue(sql, "JOB", {"a": 200 * "a"}, queue="q")
        points = traces.points("messaging.client.sent.messages")

    made, hit, refused = (dict(span.attributes or {}) for span in traces.named("send q"))
    assert first.job_id == second.job_id
    assert made["messaging.message.id"] == hit["messaging.message.id"] == str(first.job_id)
    assert ("wakeful.deduplicated" in made, hit["wakeful.deduplicated"]) == (False, True)
    assert refused["error.type"] == "OptionRefused"
    assert traces.named("send q")[2].status.status_code is StatusCode.ERROR
    assert sorted((one.value, one.attributes.get("error.type", "")) for one in points) == [
        (1, "OptionRefused"),
        (2, ""),
    ]


async def test_what_a_driver_shows_of_the_row_is_in_no_span(sql: Connection) -> None:
    await sql.execute("alter table wakeful.ready add constraint refused check (subject <> 'no') not valid")
    with traced_process() as traces, pytest.raises(CheckViolationError, match="4711"):
        await wakeful.enqueue(sql, "JOB", {"card": 4711}, subject="no", queue="q")

    (refused,) = traces.named("send q")
    assert refused.status.description is not None
    assert "refused" in refused.status.description
    assert "4711" not in f"{refused.status.description} {[event.attributes for event in refused.events]}"


async def test_half_of_a_secret_at_the_cut_of_a_long_error_is_in_no_span(
    db: ClonedDatabase, sql: Connection
) -> None:
    registry = Registry()

    @registry.job("JOB", secret=["token"], max_attempts=1)
    async def fails(job: JobContext) -> None:
        async with job.step("first"):
            raise ValueError(1000 * f"{job.payload['token']}\n")

    with traced_process() as traces:
        async with running(db, registry):
            job_id = (await enqueue(sql, "JOB", {"token": "correct-horse-battery"})).job_id
            (run,) = await traces.ended(RUN)

    (step,) = traces.named("first")
    told = str([(one.status.description, [event.attributes for event in one.events]) for one in (step, run)])
    assert "ValueError" in told and "***" in told
    assert "correct" not in told
    assert "correct" not in str((await job_row(sql, job_id))["progress"])


async def test_what_the_caller_puts_into_meta_is_what_the_job_carries(sql: Connection) -> None:
    with traced_process():
        job_id = (await wakeful.enqueue(sql, "JOB", meta={"traceparent": "mine"})).job_id

    assert (await job_row(sql, job_id))["meta"] == {"traceparent": "mine"}


@pytest.mark.parametrize("job_type", ["SEE", "SEE_IN_THREAD"])
async def test_a_handler_in_its_own_process_is_within_the_attempts_span(
    db: ClonedDatabase, sql: Connection, job_type: str
) -> None:
    with traced_process() as traces:
        async with running(db, traced_jobs.registry, settings=isolated()):
            job_id = (await enqueue(sql, job_type)).job_id
            (run,) = await traces.ended(RUN)

    seen = (await job_row(sql, job_id))["result"]
    trace_id, span_id = f"{ids(run)[0]:032x}", f"{ids(run)[1]:016x}"
    assert seen["around"] == {"trace": trace_id, "span": span_id, "parent": None}
    assert (seen["own"]["trace"], seen["own"]["parent"]) == (trace_id, span_id)
    follow_up = await sql.fetchval("select meta ->> 'traceparent' from wakeful.jobs where job_type = 'LATER'")
    assert follow_up.split("-")[1] == trace_id


async def test_the_crash_of_a_process_ends_the_attempts_span(db: ClonedDatabase, sql: Connection) -> None:
    with traced_process() as traces:
        async with running(db, traced_jobs.registry, settings=isolated()):
            await enqueue(sql, "CRASH", max_attempts=1)
            (run,) = await traces.ended(RUN)

    assert outcomes([run]) == ["died"]
    assert (run.attributes or {})["error.type"] == "ProcessDied"


def isolated() -> Any:
    settings = brisk()
    return replace(settings, worker=replace(settings.worker, processes=1, process_memory=512))


class BrokenSampler(Sampler):
    def should_sample(self, *_given: object, **_named: object) -> NoReturn:
        raise RuntimeError("a sampler that is broken")

    def get_description(self) -> str:
        return "broken"


class BrokenProcessor(SpanProcessor):
    """Raises when a span begins, or when it ends."""

    def __init__(self, *, at_start: bool) -> None:
        self._at_start = at_start

    def on_start(self, span: Span, parent_context: object = None) -> None:
        if self._at_start:
            raise RuntimeError("a processor that is broken")

    def on_end(self, span: ReadableSpan) -> None:
        if not self._at_start:
            raise RuntimeError("a processor that is broken")

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        raise RuntimeError("a processor that is broken")


def broken(what: str) -> TracerProvider:
    if what == "sampler":
        return TracerProvider(sampler=BrokenSampler())
    provider = TracerProvider()
    provider.add_span_processor(BrokenProcessor(at_start=what == "start"))
    return provider


class BrokenMeter(ExemplarFilter):
    """Raises with each number that is measured."""

    def should_sample(self, *_given: object, **_named: object) -> NoReturn:
        raise RuntimeError("a filter that is broken")


@pytest.mark.parametrize("what", ["sampler", "start", "end", "meter"])
async def test_a_tracer_or_meter_that_raises_costs_the_span_is_told_once_and_fails_no_job(
    db: ClonedDatabase, sql: Connection, what: str
) -> None:
    exemplars = BrokenMeter() if what == "meter" else None
    with traced_process(None if exemplars else broken(what), exemplars=exemplars):
        async with running(db, registry_of(steps)) as one:
            jobs = [(await wakeful.enqueue(sql, "JOB")).job_id for _ in range(3)]
            for job_id in jobs:
                await one.recorder.seen(JOB_FINISHED, job_id=job_id)
            assert one.parts.executing.tracing is not None
            one.parts.executing.tracing.close()

        assert len(one.recorder.of(TRACING_FAILED)) == 1
    assert [await status_of(sql, job_id) for job_id in jobs] == ["DONE"] * 3
    assert await sql.fetchval("select count(*) from wakeful.jobs where job_type = 'LATER'") == 3


class BrokenSpan(NonRecordingSpan):
    def get_span_context(self) -> NoReturn:
        raise RuntimeError("a span that is broken")


async def test_within_a_span_of_somebody_elses_that_raises_lines_have_the_ids_of_the_attempt(
    db: ClonedDatabase, sql: Connection
) -> None:
    found: list[Mapping[str, object]] = []

    async def logs(job: JobContext) -> None:
        with use_span(BrokenSpan(INVALID_SPAN_CONTEXT)):
            found.append(names_of_current_attempt())

    with traced_process() as traces:
        async with running(db, registry_of(logs)):
            job_id = (await enqueue(sql, "JOB")).job_id
            (run,) = await traces.ended(RUN)

    assert outcomes([run]) == ["finished"]
    (names,) = found
    assert (names["job_id"], names["span_id"]) == (str(job_id), f"{ids(run)[1]:016x}")


class SilentTracers(TracerProvider):
    """Gives tracers that are switched off, as a configuration can do to one library's."""

    def get_tracer(self, *_given: object, **_named: object) -> Tracer:
        return SilentTracer()


class SilentTracer(Tracer):
    def start_span(self, *_given: object, **_named: object) -> SpanOfAny:
        return INVALID_SPAN

    def start_as_current_span(self, *_given: object, **_named: object) -> NoReturn:
        raise NotImplementedError


async def test_an_attempt_by_a_tracer_that_is_switched_off_has_no_ids(
    db: ClonedDatabase, sql: Connection
) -> None:
    async def dies(job: JobContext) -> None:
        raise Fail("never")

    with traced_process(SilentTracers()):
        async with running(db, registry_of(dies)) as one:
            job_id = (await wakeful.enqueue(sql, "JOB")).job_id
            died = await one.recorder.seen(JOB_DIED)

    row = await job_row(sql, job_id)
    assert "trace_id" not in died
    assert "traceparent" not in row["errors"][0]
    assert row["meta"] == {}


class StalledExporter(SpanExporter):
    """Takes a batch and never comes back, until it is let go."""

    def __init__(self) -> None:
        self.entered, self.let_go = threading.Event(), threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.entered.set()
        self.let_go.wait()
        raise ConnectionError("the collector is gone")


async def test_an_exporter_that_stalls_holds_up_no_job_and_no_stop(
    db: ClonedDatabase, sql: Connection
) -> None:
    provider, exporter = TracerProvider(), StalledExporter()
    provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=4, max_export_batch_size=1))
    with traced_process(provider) as traces:
        try:
            async with running(db, registry_of(nothing)) as one:
                await sql.execute("select wakeful.enqueue('JOB') from generate_series(1, 50)")
                runs = await traces.ended(RUN, 50)
                assert exporter.entered.wait(30)
                began = time.monotonic()
                assert one.parts.executing.tracing is not None
                one.parts.executing.tracing.close()
                assert time.monotonic() - began < FLUSH_SECONDS + 20
        finally:
            exporter.let_go.set()

    assert outcomes(runs) == ["finished"] * 50
    assert linked_to(runs[0]) == []
    assert context_of(runs[0]).is_valid
