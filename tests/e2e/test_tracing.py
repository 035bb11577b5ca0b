"""A daemon under `opentelemetry-instrument`, as people start it: a real exporter, its protocol, real exits."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from support import traced_jobs
from support.databases import ClonedDatabase, Connection
from support.eventually import eventually, looked
from support.factories import enqueue, status_of
from support.process import running_daemon
from support.receiver import PATH, Receiver, answer, running_receiver, stall

INSTRUMENTED = (str(Path(sys.executable).with_name("opentelemetry-instrument")),)
QUICK = {"poll.min": "100ms", "poll.max": "200ms", "worker.processes": 1}
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "workers")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
    monkeypatch.setenv("OTEL_LOGS_EXPORTER", "none")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "200")
    monkeypatch.setenv("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", "asyncpg")


def spans_of(receiver: Receiver) -> dict[str, Any]:
    """What a collector was sent, by name."""
    found: dict[str, Any] = {}
    for received in receiver.received:
        request = ExportTraceServiceRequest.FromString(received.body)
        for resource in request.resource_spans:
            names = {one.key: one.value.string_value for one in resource.resource.attributes}
            assert names["service.name"] == "workers"
            found |= {span.name: span for scope in resource.scope_spans for span in scope.spans}
    return found


@pytest.mark.parametrize("hides", [False, True], ids=["for-all", "for-itself"])
async def test_the_environment_of_opentelemetry_is_all_that_it_takes(
    db: ClonedDatabase, sql: Connection, monkeypatch: pytest.MonkeyPatch, hides: bool
) -> None:
    if hides:
        monkeypatch.setenv("HIDE_INSTRUMENTATION", "1")
    async with running_receiver(otherwise=answer(200)) as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url.removesuffix(PATH))
        with running_daemon(
            db.dsn, settings=QUICK, handlers=traced_jobs.__name__, around=INSTRUMENTED
        ) as daemon:
            await enqueue(sql, "STEP", meta={"traceparent": f"00-{TRACE}-{SPAN}-01"})
            spans = await eventually(
                looked(lambda: spans_of(receiver)),
                until=lambda found: {"apart", "process default"} <= set(found),
            )
            finished = daemon.wait_for("job.finished")
            assert daemon.wait_for("daemon.started")["tracing"] == "link"
            assert not [line for line in daemon.raw if "Overriding" in line]  # nobody was instrumented twice
            daemon.send(signal.SIGTERM)
            assert await to_thread.run_sync(daemon.exit_code) == 0

    run, step = spans["process default"], spans["apart"]
    assert [(link.trace_id.hex(), link.span_id.hex()) for link in run.links] == [(TRACE, SPAN)]
    assert (run.trace_id.hex(), run.span_id.hex()) == (finished["trace_id"], finished["span_id"])
    assert (step.trace_id, step.parent_span_id) == (run.trace_id, run.span_id)  # of another process


async def test_what_a_handler_logs_in_its_own_process_is_exported_once_and_without_secrets(
    db: ClonedDatabase, sql: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIDE_INSTRUMENTATION", "1")  # so that the process is instrumented last
    monkeypatch.setenv("OTEL_LOGS_EXPORTER", "otlp")
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    monkeypatch.setenv("OTEL_PYTHON_LOGGING_AUTO_INSTRUMENTATION_ENABLED", "true")
    monkeypatch.setenv("OTEL_BLRP_SCHEDULE_DELAY", "10")
    async with running_receiver(otherwise=answer(200)) as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url.removesuffix(PATH))
        with running_daemon(
            db.dsn, settings=QUICK, handlers=traced_jobs.__name__, around=INSTRUMENTED
        ) as daemon:
            await enqueue(sql, "SAY", {"token": "correct-horse-battery"})
            daemon.wait_for("job.finished")
            daemon.send(signal.SIGTERM)
            assert await to_thread.run_sync(daemon.exit_code) == 0

    said = [body for body in bodies_of(receiver) if body.startswith("said")]
    assert said == ["said ***"]
    assert b"correct-horse" not in b"".join(received.body for received in receiver.received)


def bodies_of(receiver: Receiver) -> list[str]:
    """The lines that a collector was sent."""
    requests = [ExportLogsServiceRequest.FromString(received.body) for received in receiver.received]
    return [
        record.body.string_value
        for request in requests
        for resource in request.resource_logs
        for scope in resource.scope_logs
        for record in scope.log_records
    ]


async def test_a_collector_that_never_answers_costs_no_job_and_not_the_exit_code(
    db: ClonedDatabase, sql: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_receiver(otherwise=stall) as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url.removesuffix(PATH))
        with running_daemon(db.dsn, settings=QUICK, around=INSTRUMENTED) as daemon:
            job_id = (await enqueue(sql, "probe.ok")).job_id
            daemon.wait_for("job.finished")
            await eventually(looked(lambda: receiver.received))
            daemon.send(signal.SIGTERM)
            assert await to_thread.run_sync(daemon.exit_code) == 0
            assert daemon.events("daemon.stopped", exit_code=0)
            assert not daemon.events("thread.abandoned")

    assert await status_of(sql, job_id) == "DONE"


async def test_an_exit_that_hangs_keeps_the_code_of_a_schema_that_does_not_fit(
    db: ClonedDatabase, sql: Connection
) -> None:
    await sql.execute("update wakeful.installation set schema_version = 99, breaking_version = 99")
    with running_daemon(db.dsn, settings=QUICK, handlers="support.hanging_exit") as daemon:
        assert await to_thread.run_sync(daemon.exit_code) == 78
        assert not daemon.events("thread.abandoned")
