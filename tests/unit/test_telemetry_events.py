"""The catalogue: its form, its page, and that all of the source keeps to it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.sources import TOP, python_files, shown
from wakeful.runtime import endings
from wakeful.telemetry import events
from wakeful.telemetry.events import ATTEMPT, EVENTS, Event
from wakeful.telemetry.meters import METERS, OUTCOME, Counter, Gauge, Histogram
from wakeful.telemetry.reference import page

ENDS_OF_ATTEMPT = [
    event for name, event in vars(endings).items() if isinstance(event, Event) and name.startswith("JOB_")
]
CONSTANTS = {name: value for name, value in vars(events).items() if isinstance(value, Event)}


def test_every_constant_is_in_the_catalogue_once() -> None:
    assert set(EVENTS) == set(CONSTANTS.values())
    assert len({event.name for event in EVENTS}) == len(EVENTS) == len(CONSTANTS)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name)
def test_an_event_is_named_noun_dot_past_verb_and_explained(event: Event) -> None:
    assert re.fullmatch(r"[a-z_]+\.[a-z_]+", event.name)
    assert event.help.endswith(".")
    assert len(set(event.fields)) == len(event.fields)


@pytest.mark.parametrize("event", ENDS_OF_ATTEMPT, ids=lambda event: event.name)
def test_every_end_of_an_attempt_has_the_fields_of_the_canonical_line(event: Event) -> None:
    assert set(ATTEMPT) <= set(event.fields)


def test_a_stop_is_not_an_error() -> None:
    stops = [
        event for event in EVENTS if event.name.startswith(("stop.", "phase.")) or "handed_back" in event.name
    ]

    assert {event.level for event in stops} == {"info"}


def test_the_page_is_the_catalogue() -> None:
    assert (TOP / "docs" / "events.md").read_text() == page(), "run python -m wakeful.telemetry.reference"


@pytest.mark.parametrize("path", python_files("daemon/wakeful"), ids=shown)
def test_what_is_emitted_is_in_the_catalogue_with_its_fields(path: Path) -> None:
    strangers = [
        f"{event.name} has no field {name}"
        for event, given in _emitted(path)
        for name in given
        if name not in event.fields
    ]

    assert strangers == []


def test_what_is_in_the_catalogue_is_said_somewhere() -> None:
    views = {"events.py", "meters.py", "health.py"}
    trees = [ast.parse(path.read_text()) for path in python_files("daemon/wakeful") if path.name not in views]
    said = {node.id for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Name)}

    assert set(CONSTANTS) - said == set()


@pytest.mark.parametrize("path", python_files("daemon/wakeful"), ids=shown)
def test_nothing_is_logged_but_through_the_catalogue(path: Path) -> None:
    tree = ast.parse(path.read_text())
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}

    # What handlers log in processes of their own is carried on, in their words: nothing of ours is said there.
    assert path.parent.name in ("telemetry", "isolation") or not imported & {"logging", "structlog"}


def test_metrics_are_named_as_prometheus_wants_it() -> None:
    assert len({meter.name for meter in METERS}) == len(METERS)
    for meter in METERS:
        assert re.fullmatch(r"(wakeful|process)_[a-z_]+", meter.name)
        assert meter.name.endswith("_total") == isinstance(meter, Counter)
        assert not isinstance(meter, Histogram) or meter.name.endswith("_seconds")
        assert not {"job_id", "run_no", "subject", "error", "alert_id", "title"} & set(meter.labels)


def test_metrics_read_fields_that_their_events_have() -> None:
    for meter in METERS:
        if isinstance(meter, Counter | Histogram):
            fields = {meter.field} if isinstance(meter, Histogram) else {meter.amount} - {None}
            wanted = {*meter.labels, *fields} - {OUTCOME}
            lacking = [event.name for event in meter.events if not wanted <= set(event.fields)]
            assert not lacking, meter.name
        assert not (isinstance(meter, Gauge) and meter.events and meter.labels)


def _emitted(path: Path) -> Iterator[tuple[Event, list[str]]]:
    """Give each call `….emit(EVENT, field=…)` of a file, where the event is named outright."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "emit":
            named = node.args[0] if node.args else None
            name = named.id if isinstance(named, ast.Name) else getattr(named, "attr", "")
            if name in CONSTANTS:
                yield CONSTANTS[name], [keyword.arg for keyword in node.keywords if keyword.arg]
