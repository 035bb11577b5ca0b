"""Metrics: fed by events and loops, bounded whatever labels come, and readable for Prometheus."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Sequence

import pytest

from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import (
    ATTEMPTS_ENDED,
    DUTY_TAKEN,
    EVENTS,
    JOB_CLAIMED,
    JOBS_CLAIMED,
    JOBS_RESCUED,
    LANES_CLAIMED,
    LISTENER_CONNECTED,
    LISTENER_LOST,
)
from wakeful.telemetry.meters import METERS, OUTCOME, Age, Counter, Gauge, Histogram, Meter
from wakeful.telemetry.metrics import Metrics
from wakeful.telemetry.series import MOST_SERIES

LINE = re.compile(r'[a-z_]+(\{[a-z_]+="(?:[^"\\\n]|\\.)*"(,[a-z_]+="(?:[^"\\\n]|\\.)*")*\})? \S+')


def test_the_end_of_an_attempt_is_counted_and_timed() -> None:
    telemetry, metrics = _telemetry()
    for outcome, jobs in (("finished", 2), ("died", 1)):
        _end(telemetry, "q", "T", outcome=outcome, wait_ms=[20] * jobs, run_ms=[70_000] * jobs)

    text = metrics.render()

    assert 'wakeful_jobs_finished_total{queue="q",job_type="T",outcome="succeeded"} 2' in text
    assert 'wakeful_jobs_finished_total{queue="q",job_type="T",outcome="dead"} 1' in text
    assert 'wakeful_job_wait_seconds_bucket{queue="q",job_type="T",le="0.005"} 0' in text
    assert 'wakeful_job_wait_seconds_bucket{queue="q",job_type="T",le="0.025"} 3' in text
    assert (
        'wakeful_job_duration_seconds_bucket{queue="q",job_type="T",outcome="succeeded",le="60.0"} 0' in text
    )
    assert (
        'wakeful_job_duration_seconds_bucket{queue="q",job_type="T",outcome="succeeded",le="180.0"} 2' in text
    )
    assert (
        'wakeful_job_duration_seconds_bucket{queue="q",job_type="T",outcome="succeeded",le="+Inf"} 2' in text
    )
    assert 'wakeful_job_duration_seconds_sum{queue="q",job_type="T",outcome="succeeded"} 140' in text
    assert 'wakeful_job_duration_seconds_count{queue="q",job_type="T",outcome="succeeded"} 2' in text


def test_metrics_want_the_events_that_feed_them() -> None:
    fed = {name for meter in METERS for name in _feeding(meter)}

    assert {event.name for event in EVENTS if Metrics().wants(event)} == fed
    assert ATTEMPTS_ENDED.name in fed and DUTY_TAKEN.name not in fed


def test_what_happens_many_times_in_one_event_is_counted_so() -> None:
    telemetry, metrics = _telemetry()
    telemetry.emit(JOBS_RESCUED, jobs=7, reason="lease")
    telemetry.emit(JOBS_RESCUED, jobs=0, reason="backstop")

    text = metrics.render()

    assert 'wakeful_lease_rescues_total{reason="lease"} 7' in text
    assert "backstop" not in text


def test_jobs_claimed_are_counted_once_whether_or_not_each_is_told() -> None:
    telemetry, metrics = _telemetry()
    telemetry.emit(JOBS_CLAIMED, queue="q", job_type="T", jobs=2)
    for run_no in (1, 2):
        telemetry.emit(JOB_CLAIMED, queue="q", job_type="T", run_no=run_no)

    assert 'wakeful_jobs_claimed_total{queue="q",job_type="T"} 2' in metrics.render()


def test_an_event_can_set_a_gauge() -> None:
    telemetry, metrics = _telemetry()

    telemetry.emit(LISTENER_CONNECTED)
    assert "wakeful_listen_connected 1\n" in metrics.render()
    telemetry.emit(LISTENER_LOST)
    assert "wakeful_listen_connected 0\n" in metrics.render()


def test_a_counter_without_labels_is_there_from_the_start() -> None:
    assert "wakeful_claims_total 0\n" in Metrics().render()


def test_what_a_loop_sets_anew_replaces_all_that_it_set_before() -> None:
    metrics = Metrics()
    gauge = metrics.gauge("wakeful_queue_jobs")
    gauge.replace([({"queue": "a", "state": "ready"}, 3), ({"queue": "gone", "state": "dead"}, 1)])
    gauge.replace([({"queue": "a", "state": "ready"}, 4)])

    text = metrics.render()

    assert 'wakeful_queue_jobs{queue="a",state="ready"} 4' in text
    assert "gone" not in text


def test_values_beyond_the_cap_are_other_summed_or_the_highest_of_them() -> None:
    metrics = Metrics()
    queues = [f"q{number}" for number in range(70)]
    metrics.gauge("wakeful_queue_jobs").replace([({"queue": queue, "state": "dead"}, 1) for queue in queues])
    ages = [({"queue": queue}, float(age)) for age, queue in enumerate(queues)]
    metrics.gauge("wakeful_queue_oldest_ready_seconds").replace(ages)

    text = metrics.render()

    assert 'wakeful_queue_jobs{queue="other",state="dead"} 20' in text
    assert 'wakeful_queue_oldest_ready_seconds{queue="other"} 69' in text


@pytest.mark.case("F89")
def test_its_size_is_bounded_whatever_the_labels_are() -> None:
    telemetry, metrics = _telemetry()
    for number in range(20_000):
        _end(telemetry, f"q{number % 300}", f"T{number}")
    before = len(metrics.render())

    for number in range(20_000, 25_000):
        _end(telemetry, f"q{number}", f"T{number}", outcome="died")

    after = metrics.render()
    assert 'job_type="other"' in after
    assert len(after) < 1_500_000
    assert len(after) - before < 100_000
    assert _total(after, "wakeful_jobs_finished_total") == 25_000


@pytest.mark.case("F89")
def test_combinations_of_labels_are_bounded_too() -> None:
    telemetry, metrics = _telemetry()
    for queue in range(40):
        for job_type in range(40):
            _end(telemetry, queue, job_type)

    text = metrics.render()

    assert text.count("\nwakeful_jobs_finished_total{") == MOST_SERIES + 1
    assert _total(text, "wakeful_jobs_finished_total") == 1600


def test_labels_that_are_equal_but_not_the_same_text_are_counted_apart() -> None:
    telemetry, metrics = _telemetry()
    for queue in (1, True, 1.0, "1", None, ["1"], ["1"]):
        _end(telemetry, queue, "T")
    telemetry.emit(ATTEMPTS_ENDED, job_type="T", outcome="finished", jobs=1, run_ms=1)

    text = metrics.render()

    for queue, count in (("1", 2), ("True", 1), ("1.0", 1), ("", 2), ("['1']", 2)):
        labels = f'queue="{queue}",job_type="T"'
        assert f'wakeful_jobs_finished_total{{{labels},outcome="succeeded"}} {count}\n' in text
    assert 'wakeful_job_wait_seconds_count{queue="",job_type="T"} 1\n' in text


def test_an_age_grows_until_it_is_reset() -> None:
    now = [100.0]
    metrics = Metrics(lambda: now[0])
    now[0] = 130.0
    assert "wakeful_database_gauges_age_seconds 30\n" in metrics.render()

    metrics.age("wakeful_database_gauges_age_seconds").reset()
    now[0] = 130.5
    assert "wakeful_database_gauges_age_seconds 0.5\n" in metrics.render()


@pytest.mark.parametrize(
    "value", ["a\nb", 'say "x"', "back\\slash", "\x1b[31m", "\x00", "\ud800", None, 7, "x" * 999]
)
def test_no_label_breaks_the_text(value: object) -> None:
    telemetry, metrics = _telemetry()
    _end(telemetry, value, "T")
    metrics.gauge("wakeful_outbox_pending").set(math.nan)
    metrics.gauge("wakeful_outbox_oldest_seconds").set(math.inf)

    text = metrics.render()

    text.encode()
    for line in text.removesuffix("\n").split("\n"):
        assert line.startswith("# ") or LINE.fullmatch(line), line
        assert len(line) < 400


def test_each_metric_has_its_help_and_its_type() -> None:
    text = Metrics().render()

    for meter in METERS:
        assert f"# HELP {meter.name} {meter.help}\n# TYPE {meter.name} " in text
    assert "# TYPE wakeful_job_duration_seconds histogram" in text
    assert "# TYPE wakeful_beat_age_seconds gauge" in text
    assert OUTCOME == "outcome"


def test_a_metric_that_is_not_in_the_catalogue_is_a_mistake_of_the_caller() -> None:
    metrics = Metrics()

    with pytest.raises(KeyError, match="wakeful_nothing is no gauge"):
        metrics.gauge("wakeful_nothing")
    with pytest.raises(KeyError, match="wakeful_claims_total is no gauge"):
        metrics.gauge("wakeful_claims_total")
    with pytest.raises(ValueError, match="the labels are none, not queue"):
        metrics.counter("wakeful_claims_total").inc(queue="q")


def test_threads_do_not_lose_counts() -> None:
    telemetry, metrics = _telemetry()

    def count() -> None:
        for _ in range(500):
            telemetry.emit(LANES_CLAIMED, jobs=1, seconds=0.01)
            metrics.counter("wakeful_claims_failed_total").inc()

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert "wakeful_claims_total 4000\n" in metrics.render()
    assert "wakeful_claims_failed_total 4000\n" in metrics.render()
    assert "wakeful_claim_seconds_count 4000\n" in metrics.render()


def _end(
    telemetry: Telemetry,
    queue: object,
    job_type: object,
    *,
    outcome: str = "finished",
    wait_ms: Sequence[float] = (1,),
    run_ms: Sequence[float] = (2,),
) -> None:
    telemetry.emit(
        ATTEMPTS_ENDED,
        queue=queue,
        job_type=job_type,
        outcome=outcome,
        jobs=len(wait_ms),
        wait_ms=list(wait_ms),
        run_ms=list(run_ms),
    )


def _telemetry() -> tuple[Telemetry, Metrics]:
    telemetry, metrics = Telemetry(strict=True), Metrics()
    telemetry.subscribe(metrics.on_event)
    return telemetry, metrics


def _feeding(meter: Meter) -> list[str]:
    match meter:
        case Gauge():
            return [event.name for event, _ in meter.events]
        case Counter() | Histogram():
            return [event.name for event in meter.events]
        case Age():
            return []


def _total(text: str, name: str) -> int:
    return sum(int(value) for value in re.findall(rf"^{name}\{{.*\}} (\d+)$", text, re.MULTILINE))
