"""How long jobs run here: nothing is assumed early, and a slow job outweighs many fast ones."""

from __future__ import annotations

from wakeful.core.pace import ENOUGH_RUNS, MOST_AHEAD, Pace, Starts


def paced(*seconds: float) -> Pace:
    pace = Pace()
    for one in seconds:
        pace.ran("A", one)
    return pace


def test_nothing_is_claimed_ahead_of_a_type_that_is_not_known_yet() -> None:
    pace = paced(*[0.001] * (ENOUGH_RUNS - 1))

    assert pace.ahead("A", 10) == 0
    assert not pace.is_short("A")
    assert pace.ahead("B", 10) == 0
    assert not pace.is_short("B")


def test_as_many_are_claimed_ahead_as_can_start_within_50_ms() -> None:
    pace = paced(*[0.01] * ENOUGH_RUNS)

    assert pace.ahead("A", 10) == 50
    assert pace.ahead("A", 1) == 5
    assert paced(*[0.0] * ENOUGH_RUNS).ahead("A", 10) == MOST_AHEAD


def test_a_type_that_takes_its_time_is_never_claimed_ahead() -> None:
    assert paced(*[30.0] * ENOUGH_RUNS).ahead("A", 10) == 0


def test_one_slow_job_stops_claiming_ahead_at_once() -> None:
    pace = paced(*[0.001] * 1000)
    assert pace.ahead("A", 10) > 100

    pace.ran("A", 5.0)

    assert pace.ahead("A", 10) == 0
    assert not pace.is_short("A")


def test_a_run_much_slower_than_usual_counts_in_full_and_a_faster_one_by_and_by() -> None:
    pace = paced(*[0.001] * 1000)

    pace.ran("A", 0.2)
    assert pace.ahead("A", 100) == 25
    pace.ran("A", 0.001)
    assert pace.ahead("A", 100) == 27


def test_a_type_that_becomes_fast_again_is_believed_by_and_by() -> None:
    pace = paced(*[0.001] * ENOUGH_RUNS, 5.0)
    for _ in range(5):
        pace.ran("A", 0.001)
    assert not pace.is_short("A")
    for _ in range(500):
        pace.ran("A", 0.001)

    assert pace.is_short("A")
    assert pace.ahead("A", 10) > 100


def test_a_type_with_now_and_then_a_job_of_seconds_is_not_short() -> None:
    pace = Pace()
    for number in range(200):
        pace.ran("A", 3.0 if number % 50 == 25 else 0.001)

    assert not pace.is_short("A")


def test_a_type_well_under_a_second_is_short() -> None:
    assert paced(*[0.3] * ENOUGH_RUNS).is_short("A")
    assert not paced(*[0.7] * ENOUGH_RUNS).is_short("A")


def test_what_is_forgotten_is_learned_anew() -> None:
    pace = paced(*[0.001] * 100)
    pace.forget("A")

    assert pace.ahead("A", 10) == 0
    for _ in range(ENOUGH_RUNS):
        pace.ran("A", 0.001)
    assert pace.ahead("A", 10) > 0


def test_what_has_started_in_the_last_50_ms_is_counted() -> None:
    starts = Starts()
    assert starts.note(0, 0.0) == 0
    assert starts.note(100, 0.03125) == 100
    assert starts.note(180, 0.046875) == 180
    assert starts.note(200, 0.09375) == 80


def test_after_a_pause_starts_are_reckoned_for_50_ms_of_it() -> None:
    starts = Starts()
    starts.note(0, 10.0)

    assert starts.note(1000, 20.0) == 5
