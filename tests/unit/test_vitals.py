"""What a process reports of itself: standstills for a while, deafness while the database answers, a wrong clock."""

from __future__ import annotations

import pytest

from wakeful.runtime.vitals import Vitals
from wakeful.store.instances import Report
from wakeful.telemetry.events import LISTENER_CONNECTED, LISTENER_DEGRADED, LISTENER_LOST, LOOP_BLOCKED


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def vitals(clock: Clock) -> Vitals:
    return Vitals(clock=clock)


def report(vitals: Vitals) -> Report:
    return vitals.report(free_workers=3)


def test_who_is_well_has_nothing_to_tell_but_free_workers(vitals: Vitals) -> None:
    assert report(vitals) == Report(free_workers=3)


def test_the_worst_standstill_is_told_for_five_minutes_after_it_and_by_whom(
    vitals: Vitals, clock: Clock
) -> None:
    vitals.stood_still(10.0, 1.2, "OCR")
    vitals.stood_still(10.0, 4.0)  # the same one, when it was over: nobody saw by whom then
    vitals.stood_still(20.0, 2.0, "MAIL")
    vitals.stood_still(30.0, 0.2, "TOO_SHORT")
    assert (report(vitals).blocked_for, report(vitals).blocked_by) == (4.0, "OCR")

    clock.now += 200
    vitals.stood_still(220.0, 3.0)
    clock.now += 101
    assert (report(vitals).blocked_for, report(vitals).blocked_by) == (3.0, None)
    clock.now += 300
    assert report(vitals).blocked_for is None


def test_deafness_counts_from_its_first_sign_and_only_while_the_database_answers(
    vitals: Vitals, clock: Clock
) -> None:
    vitals.on_event(LISTENER_LOST, {"error": "gone"})
    clock.now += 40
    vitals.on_event(LISTENER_DEGRADED, {"reason": "a pooler"})
    clock.now += 20
    assert report(vitals).deaf_for == 60.0
    vitals.cut_off()
    clock.now += 5
    assert report(vitals).deaf_for == 5.0
    vitals.on_event(LISTENER_CONNECTED, {"seconds": 65.0})
    assert report(vitals).deaf_for is None
    vitals.cut_off()
    assert report(vitals).deaf_for is None
    assert (vitals.wants(LISTENER_LOST), vitals.wants(LOOP_BLOCKED)) == (True, False)


@pytest.mark.parametrize(
    ("sent", "received", "server", "ahead"),
    [
        (100.0, 100.01, 100.005, None),
        (160.0, 160.02, 100.01, 60.0),
        (40.0, 40.02, 100.01, -60.0),
        (100.0, 108.0, 100.0, None),  # a slow way proves nothing: it may all have been the way back
        (110.0, 118.0, 100.0, 10.0),  # at least so much
        (100.0, 90.0, 100.0, None),  # set while the beat was under way
    ],
)
def test_a_clock_is_off_by_what_the_way_leaves_certain(
    vitals: Vitals, sent: float, received: float, server: float, ahead: float | None
) -> None:
    vitals.compared(sent=sent, received=received, server=server)
    assert report(vitals).clock_ahead == ahead


def test_a_clock_that_was_set_right_has_nothing_to_tell(vitals: Vitals) -> None:
    vitals.compared(sent=160.0, received=160.02, server=100.01)
    vitals.compared(sent=200.0, received=200.02, server=200.01)
    assert report(vitals).clock_ahead is None
