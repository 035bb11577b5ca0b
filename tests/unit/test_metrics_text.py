"""The text of the metrics, read by a strict parser: in both forms, whatever producers call their queues and types."""

from __future__ import annotations

import pytest

from support.exposition import Family, parse, value
from support.sources import TOP
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import ATTEMPTS_ENDED, JOB_DIED, JOB_RETRIED, OUTBOX_DELIVERED
from wakeful.telemetry.exposition import OPENMETRICS, PROMETHEUS, TextForm, form_for
from wakeful.telemetry.meters import METERS, Meter
from wakeful.telemetry.metrics import Metrics
from wakeful.telemetry.reference import metrics_table
from wakeful.telemetry.series import MOST_HISTOGRAMS, MOST_SERIES, MOST_VALUES

HOSTILE = (
    *('say "x"', "back\\slash", 'both\\"', "a\nb", "a\r\nb", "\x00", "\x1b[31m", "\ud800", "{le=", '",a="'),
    *("}", "# EOF", "", " ", "ü" * 200, "\u2028", "\u202e", "other", "+Inf", "# HELP x y"),
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
both = pytest.mark.parametrize("form", [PROMETHEUS, OPENMETRICS], ids=["prometheus", "openmetrics"])


@both
def test_a_process_that_has_done_nothing_is_well_formed_and_describes_every_metric(form: TextForm) -> None:
    families = read(Metrics(), form)

    assert set(families) == {_family_of(meter, form) for meter in METERS}
    assert families["wakeful_build_info"].label_names() == {"version", "schema"}


@both
def test_hostile_names_of_queues_types_errors_and_sinks_keep_it_well_formed(form: TextForm) -> None:
    telemetry, metrics = _telemetry()
    for name in HOSTILE:
        _end(telemetry, name, name)
        telemetry.emit(JOB_RETRIED, job_type=name, error_type=name)
        telemetry.emit(OUTBOX_DELIVERED, sink=name, seconds=0.1)
    metrics.gauge("wakeful_queue_jobs").replace([({"queue": name, "state": "ready"}, 1) for name in HOSTILE])

    families = read(metrics, form)

    queue = 'say "x"'
    assert value(families, "wakeful_queue_jobs", queue=queue, state="ready") == 1
    assert value(families, "wakeful_alert_deliveries_total", sink="back\\slash", outcome="delivered") == 1
    assert all("\n" not in text for text in _label_values(families))
    assert sum(families["wakeful_queue_jobs"].samples.values()) == len(HOSTILE)


@pytest.mark.case("F89")
def test_ten_thousand_types_and_queues_are_fifty_and_other_and_nothing_is_lost() -> None:
    telemetry, metrics = _telemetry()
    for number in range(10_000):
        _end(telemetry, f"q{number % 60}", f"T{number}", outcome="died" if number % 10 == 0 else "finished")
        telemetry.emit(JOB_DIED, job_type=f"T{number}", error_type=f"E{number}")
        telemetry.emit(OUTBOX_DELIVERED, sink=f"s{number}", seconds=0.1)

    families = read(metrics)

    finished = families["wakeful_jobs_finished"]
    assert sum(finished.samples.values()) == 10_000
    for family in families.values():
        for label in family.label_names() - {"le"}:
            values = {dict(labels)[label] for _, labels in family.samples}
            assert len(values) <= MOST_VALUES + 1, (family.name, label)
        assert len({labels for _, labels in family.samples}) <= (MOST_SERIES + 10) * 17
    dead = sum(number for (_, labels), number in finished.samples.items() if ("outcome", "dead") in labels)
    assert dead == 1000, "a death stays one when its queue and type fold"


def test_combinations_beyond_the_cap_fold_but_for_our_own_words() -> None:
    telemetry, metrics = _telemetry()
    for queue in range(40):
        for job_type in range(40):
            _end(telemetry, queue, job_type, outcome="died" if job_type % 2 else "finished")

    families = read(metrics)

    others = {"queue": "other", "job_type": "other"}
    counted = families["wakeful_jobs_finished"].samples
    assert len(counted) == MOST_SERIES + 2
    assert (value(families, "wakeful_jobs_finished_total", **others, outcome="dead") or 0) > 100
    assert sum(counted.values()) == 1600
    durations = families["wakeful_job_duration_seconds"].samples
    assert sum(name.endswith("_count") for name, _ in durations) == MOST_HISTOGRAMS + 2


def test_both_forms_tell_the_same_of_the_same_names() -> None:
    telemetry, metrics = _telemetry()
    _end(telemetry, "q", "T")

    plain, ours = read(metrics, PROMETHEUS), read(metrics, OPENMETRICS)

    assert _samples(plain) == _samples(ours)
    assert {family.unit for family in ours.values()} == {"", "seconds", "bytes"}
    assert value(ours, "process_resident_memory_bytes") != 0


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", PROMETHEUS),
        ("*/*", PROMETHEUS),
        ("text/plain", PROMETHEUS),
        ("text/html,application/xhtml+xml,*/*;q=0.8", PROMETHEUS),
        ("text/plain;version=0.0.4;q=0.5,*/*;q=0.1", PROMETHEUS),
        (PROMETHEUS_3, OPENMETRICS),
        ("application/openmetrics-text", OPENMETRICS),
        ("application/openmetrics-text; version=1.0.0; charset=utf-8", OPENMETRICS),
        ("Application/OpenMetrics-Text;Version=1.0.0;Q=0.5", OPENMETRICS),
        ("application/openmetrics-text;version=0.0.1", PROMETHEUS),
        ("application/openmetrics-text;q=0", PROMETHEUS),
        ("application/openmetrics-text;q=0.2,text/plain;q=0.9", PROMETHEUS),
        ("application/openmetrics-text;q=lots", PROMETHEUS),
        (";;,,=;q=", PROMETHEUS),
    ],
)
def test_a_client_is_given_the_form_that_it_asks_for(accept: str, form: TextForm) -> None:
    assert form_for(accept) is form


def test_no_metric_is_named_like_a_part_of_another() -> None:
    names = {_family_of(meter, OPENMETRICS) for meter in METERS}
    parts = {
        f"{name}{suffix}"
        for name in names
        for suffix in ("_total", "_created", "_bucket", "_count", "_sum", "_info")
    }

    assert len(names) == len(METERS)
    assert names & parts == set()


def test_the_page_has_the_table_of_all_metrics() -> None:
    page = (TOP / "docs" / "monitoring.md").read_text()

    assert metrics_table() in page, "run python -m wakeful.telemetry.reference metrics"


def read(metrics: Metrics, form: TextForm = OPENMETRICS) -> dict[str, Family]:
    return parse(metrics.render(form), openmetrics=form is OPENMETRICS)


def _family_of(meter: Meter, form: TextForm) -> str:
    return meter.name if form is PROMETHEUS else meter.name.removesuffix("_total")


def _samples(families: dict[str, Family]) -> dict[object, float]:
    """All but what the process is measured by when it is asked."""
    found = [item for family in families.values() for item in family.samples.items()]
    return {key: number for key, number in found if not key[0].startswith("process_")}


def _label_values(families: dict[str, Family]) -> list[str]:
    return [text for family in families.values() for _, labels in family.samples for _, text in labels]


def _telemetry() -> tuple[Telemetry, Metrics]:
    telemetry, metrics = Telemetry(strict=True), Metrics(lambda: 0.0)
    telemetry.subscribe(metrics.on_event)
    return telemetry, metrics


def _end(telemetry: Telemetry, queue: object, job_type: object, *, outcome: str = "finished") -> None:
    telemetry.emit(
        ATTEMPTS_ENDED,
        queue=queue,
        job_type=job_type,
        outcome=outcome,
        jobs=1,
        wait_ms=[1],
        run_ms=[2],
    )
