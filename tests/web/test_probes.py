"""The probes and the metrics, over real sockets: right in each phase, and independent of the database."""

from __future__ import annotations

import json
import time

import anyio
import pytest

from support.serving import serving
from wakeful.aio.lag import watch_lag
from wakeful.telemetry.events import ATTEMPTS_ENDED, DATABASE_LOST, SINK_CLOSED
from wakeful.telemetry.health import Phase


async def test_the_index_names_what_is_here() -> None:
    async with serving() as served:
        status, text = await served.get("/")

    assert status == 200
    assert all(path in text for path in ("/livez", "/healthz", "/readyz", "/metrics"))


async def test_a_process_that_starts_is_alive_and_not_ready() -> None:
    async with serving() as served:
        live, ready = await served.get("/livez"), await served.get("/readyz")

    assert live[0] == 200
    assert (ready[0], json.loads(ready[1])) == (
        503,
        {"ready": False, "phase": "starting", "reasons": {"phase": "not yet ready to claim jobs"}},
    )


async def test_a_process_that_serves_is_ready_unless_there_is_a_reason() -> None:
    async with serving() as served:
        served.health.enter("serve")
        ready = await served.get("/readyz")
        served.health.set("schema", "older than this release")
        unready = await served.get("/readyz")

    assert (ready[0], json.loads(ready[1])) == (200, {"ready": True, "phase": "serve", "reasons": {}})
    assert unready[0] == 503 and json.loads(unready[1])["reasons"] == {"schema": "older than this release"}


async def test_asked_for_more_it_names_its_loops() -> None:
    async with serving() as served:
        served.health.enter("serve")
        with served.health.loop("claimer", bound=60.0):
            status, text = await served.get("/readyz?verbose")

    told = json.loads(text)
    assert (status, told["ready"], told["lag_seconds"]) == (200, True, 0.0)
    assert told["loops"]["claimer"]["bound_seconds"] == 60.0


@pytest.mark.case("F70")
async def test_a_sink_that_takes_nothing_is_shown_and_no_reason_against_being_ready() -> None:
    async with serving() as served:
        served.health.enter("serve")
        served.health.on_event(SINK_CLOSED, {"sink": "team", "error": "410 Gone"})
        ready = await served.get("/readyz")

    assert (ready[0], json.loads(ready[1])["failing_sinks"]) == (200, {"team": "410 Gone"})


@pytest.mark.parametrize("phase", ["quiesce", "drain", "interrupt", "flush", "close"])
@pytest.mark.case("F45")
async def test_through_a_whole_stop_it_is_alive_not_ready_and_measured(phase: Phase) -> None:
    async with serving() as served:
        served.health.enter("serve")
        served.stop.set()
        served.health.enter(phase)

        live, healthy = await served.get("/livez"), await served.get("/healthz")
        ready, metrics = await served.get("/readyz"), await served.get("/metrics")

    assert live[0] == healthy[0] == metrics[0] == 200
    assert ready[0] == 503 and json.loads(ready[1])["reasons"]["phase"].startswith("stopping: ")
    assert f'wakeful_phase{{phase="{phase}"}} 1' in metrics[1]
    assert "wakeful_ready 0" in metrics[1]


@pytest.mark.case("F88")
async def test_a_wedged_loop_is_death_and_an_outage_is_not() -> None:
    """F88: the claim loop no longer turns; the database is gone."""
    async with serving() as served:
        served.telemetry.subscribe(served.health.on_event)
        served.health.enter("serve")
        with served.health.loop("claimer", bound=0.0):
            await anyio.wait_all_tasks_blocked()
            wedged = await served.get("/healthz")
            served.telemetry.emit(DATABASE_LOST, error="timed out")
            outage, ready = await served.get("/livez"), await served.get("/readyz")

    assert wedged[0] == 503 and "claimer" in json.loads(wedged[1])["stalled"]
    assert outage[0] == 200
    assert ready[0] == 503 and json.loads(ready[1])["reasons"] == {"database": "not reachable: timed out"}


async def test_the_loop_that_was_blocked_is_late_and_says_so() -> None:
    async with serving() as served, anyio.create_task_group() as group:
        await group.start(watch_lag, served.health, served.metrics)
        time.sleep(0.4)  # noqa: ASYNC251 - what handlers should not do
        with anyio.fail_after(30):
            while served.health.lag < 0.1:
                await anyio.sleep(0.01)
        metrics = (await served.get("/metrics"))[1]
        live = json.loads((await served.get("/livez"))[1])
        group.cancel_scope.cancel()

    assert live["lag_seconds"] >= 0.1
    (lag,) = [line for line in metrics.splitlines() if line.startswith("wakeful_event_loop_lag_seconds ")]
    assert float(lag.split()[1]) >= 0.1


async def test_metrics_are_those_of_the_events_in_prometheus_text_format() -> None:
    async with serving() as served:
        served.telemetry.subscribe(served.metrics.on_event)
        served.telemetry.emit(
            ATTEMPTS_ENDED,
            queue="q",
            job_type="T",
            outcome="finished",
            jobs=1,
            wait_ms=[1],
            run_ms=[2],
        )
        async with served.client.get(f"http://127.0.0.1:{served.port}/metrics") as response:
            kind, text = response.headers["Content-Type"], await response.text()

    assert kind == "text/plain; version=0.0.4; charset=utf-8"
    assert 'wakeful_jobs_finished_total{queue="q",job_type="T",outcome="succeeded"} 1' in text
    assert 'wakeful_build_info{version="' in text
    assert text.endswith("\n")


async def test_answers_are_neither_kept_nor_guessed_at() -> None:
    async with serving() as served, served.client.get(f"http://127.0.0.1:{served.port}/livez") as response:
        headers = response.headers

    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Server"] == "wakeful"


@pytest.mark.case("F91")
async def test_only_reading_is_possible() -> None:
    async with serving() as served:
        url = f"http://127.0.0.1:{served.port}"
        async with (
            served.client.post(f"{url}/livez") as posted,
            served.client.head(f"{url}/readyz") as headed,
        ):
            statuses = (posted.status, headed.status)
        missing = await served.get("/nothing")

    assert statuses == (405, 503)
    assert missing[0] == 404
