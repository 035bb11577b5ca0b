"""What the probes say: a stalled loop is death, an outage is not; readiness names its reasons."""

from __future__ import annotations

import pytest

from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import (
    DATABASE_LOST,
    DATABASE_RESTORED,
    OUTBOX_DELIVERED,
    OUTBOX_FAILED,
    OUTBOX_GAVE_UP,
    SINK_CLOSED,
    SINK_OPENED,
)
from wakeful.telemetry.health import Health, Phase


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_process_that_starts_is_alive_and_not_ready() -> None:
    health = Health()

    assert health.live() == (True, {})
    assert health.ready() == (False, {"phase": "not yet ready to claim jobs"})


def test_it_is_ready_while_it_serves_and_nothing_speaks_against_it() -> None:
    health = Health()
    health.enter("serve")
    assert health.ready() == (True, {})

    health.set("schema", "older than this release: run wakeful migrate")
    assert health.ready() == (False, {"schema": "older than this release: run wakeful migrate"})

    health.clear("schema")
    assert health.ready() == (True, {})


@pytest.mark.parametrize("phase", ["quiesce", "drain", "interrupt", "flush", "close"])
def test_a_process_that_stops_is_alive_and_not_ready(phase: Phase) -> None:
    health = Health()
    health.enter("serve")
    health.enter(phase)

    ready, reasons = health.ready()

    assert not ready and reasons["phase"].startswith("stopping: ")
    assert health.live() == (True, {})


def test_who_is_not_alive_is_not_ready_and_says_which_loop() -> None:
    clock = Clock()
    health = Health(clock)
    health.enter("serve")
    with health.loop("claimer", bound=60.0):
        clock.now = 61.5
        assert health.loops() == {"claimer": {"seconds_ago": 61.5, "bound_seconds": 60.0}}
        assert health.ready() == (False, {"loops": "claimer has not turned for 61.5 s (bound 60 s)"})
        health.turned("claimer")
        assert health.ready() == (True, {})


def test_a_loop_that_does_not_turn_within_its_bound_is_death() -> None:
    clock = Clock()
    health = Health(clock)

    with health.loop("claimer", bound=10) as turn:
        clock.now = 10.0
        assert health.live() == (True, {})
        clock.now = 10.1
        assert health.live() == (False, {"claimer": "has not turned for 10.1 s (bound 10 s)"})
        turn()
        assert health.live() == (True, {})
        clock.now = 30.0
        health.turned("claimer")
        assert health.live() == (True, {})


def test_a_loop_that_has_ended_is_missed_by_nobody() -> None:
    clock = Clock()
    health = Health(clock)
    with health.loop("claimer", bound=10):
        pass

    clock.now = 1000.0
    health.turned("claimer")

    assert health.live() == (True, {})


def test_an_outage_of_the_database_is_never_death_and_its_end_gives_every_loop_its_full_bound() -> None:
    clock, telemetry = Clock(), Telemetry(strict=True)
    health = Health(clock)
    telemetry.subscribe(health.on_event, health.wants)
    health.enter("serve")

    with health.loop("claimer", bound=10):
        telemetry.emit(DATABASE_LOST, error="connection refused")
        clock.now = 300.0
        assert health.live() == (True, {})
        assert health.ready() == (False, {"database": "not reachable: connection refused"})

        telemetry.emit(DATABASE_RESTORED, seconds=300.0)
        assert health.ready() == (True, {})
        clock.now = 310.0
        assert health.live() == (True, {})
        clock.now = 311.0
        assert health.live()[0] is False


@pytest.mark.case("F70")
def test_a_sink_that_takes_nothing_is_shown_and_is_no_reason_against_being_ready() -> None:
    health = Health()
    health.enter("serve")
    for event, sink in ((OUTBOX_FAILED, "team"), (SINK_CLOSED, "shop"), (OUTBOX_GAVE_UP, "log")):
        assert health.wants(event)
        health.on_event(event, {"sink": sink, "error": "503"})

    assert health.failing_sinks() == {"team": "503", "shop": "503", "log": "503"}
    assert health.ready() == (True, {})
    health.on_event(OUTBOX_DELIVERED, {"sink": "team"})
    health.on_event(SINK_OPENED, {"sink": "shop"})
    assert health.failing_sinks() == {"log": "503"}
