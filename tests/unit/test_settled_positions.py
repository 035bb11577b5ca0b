"""What is settled: positions whose transactions are over, and what a transaction that was passed over leaves behind."""

from __future__ import annotations

from wakeful.core.settling import LATE_SECONDS, Reading, Settling


def reading(position: int, number: int, *running: int, beyond: int | None = None) -> Reading:
    return Reading(
        position=position,
        number=number,
        beyond=number if beyond is None else beyond,
        running=frozenset(running),
    )


def test_nothing_is_settled_by_one_look() -> None:
    settling = Settling()
    settling.note(reading(100, 10), 0.0)

    assert settling.low_water == 0


def test_a_later_look_settles_what_was_taken_before_transactions_that_are_over() -> None:
    settling = Settling()
    settling.note(reading(100, 10), 0.0)
    settling.note(reading(120, 12), 0.1)

    assert settling.low_water == 100


def test_a_transaction_that_could_hold_a_position_holds_it_up_until_it_is_over() -> None:
    settling = Settling()
    settling.note(reading(100, 10, 9), 0.0)
    settling.note(reading(120, 12, 9), 0.1)
    assert settling.low_water == 0

    settling.note(reading(140, 14), 0.2)
    assert settling.low_water == 120


def test_a_transaction_that_began_after_a_look_does_not_hold_it_up() -> None:
    settling = Settling()
    settling.note(reading(100, 10), 0.0)
    settling.note(reading(120, 13, 11), 0.1)

    assert settling.low_water == 100


def test_a_transaction_that_the_snapshot_does_not_know_yet_settles_nothing() -> None:
    settling = Settling()
    settling.note(reading(100, 10), 0.0)
    settling.note(reading(120, 12, beyond=10), 0.1)

    assert settling.low_water == 0


def test_one_that_runs_for_long_is_passed_over_and_its_end_tells_from_where_to_sweep() -> None:
    settling = Settling()
    settling.note(reading(100, 10), 0.0)
    settling.note(reading(150, 12, 11), 0.1)
    assert not settling.has_passed

    settling.note(reading(900, 20, 11), 0.1 + LATE_SECONDS)
    assert settling.low_water == 150
    assert settling.has_passed
    settling.note(reading(950, 22, 11), 0.2 + LATE_SECONDS)
    assert settling.low_water == 900

    assert settling.note(reading(990, 24), 0.3 + LATE_SECONDS) == 100
    assert not settling.has_passed


def test_one_that_was_not_passed_over_leaves_nothing_to_sweep() -> None:
    settling = Settling()
    settling.note(reading(100, 10), 0.0)
    settling.note(reading(150, 12, 11), 0.1)

    assert settling.note(reading(160, 13), 0.2) is None
    assert settling.low_water == 150


def test_one_that_ran_before_the_first_look_can_have_taken_any_position() -> None:
    settling = Settling()
    settling.note(reading(100, 10, 5), 0.0)
    settling.note(reading(200, 20, 5), LATE_SECONDS)
    settling.note(reading(300, 30, 5), LATE_SECONDS + 0.1)

    assert settling.low_water == 200
    assert settling.note(reading(400, 40), LATE_SECONDS + 0.2) == 0


def test_of_two_that_end_together_the_older_one_says_from_where() -> None:
    settling = Settling()
    settling.note(reading(100, 10), 0.0)
    settling.note(reading(200, 20, 11), 0.1)
    settling.note(reading(300, 30, 11, 21), 0.2)
    settling.note(reading(400, 40, 11, 21), 0.2 + LATE_SECONDS)
    settling.note(reading(500, 50, 11, 21), 0.3 + LATE_SECONDS)

    assert settling.note(reading(600, 60), 0.4 + LATE_SECONDS) == 100


def test_one_of_which_the_look_before_did_not_know_is_looked_for_from_the_look_before_that() -> None:
    """Its id lies below that of the last look, which took its own after its snapshot."""
    settling = Settling()
    settling.note(reading(100, 10), 0.0)
    settling.note(reading(200, 20), 0.1)
    settling.note(reading(300, 30, 15), 0.2)
    settling.note(reading(400, 40, 15), 0.2 + LATE_SECONDS)
    settling.note(reading(500, 50, 15), 0.3 + LATE_SECONDS)

    assert settling.note(reading(600, 60), 0.4 + LATE_SECONDS) == 100


def test_positions_or_ids_that_go_backwards_contradict_what_was_seen() -> None:
    settling = Settling()
    settling.note(reading(100, 10), 0.0)

    assert settling.is_contradicted_by(reading(99, 11))
    assert settling.is_contradicted_by(reading(100, 10))
    assert not settling.is_contradicted_by(reading(100, 11))


def test_what_is_forgotten_settles_nothing_any_more() -> None:
    settling = Settling()
    settling.note(reading(100, 10), 0.0)
    settling.note(reading(120, 12), 0.1)
    settling.forget()

    assert settling.low_water == 0
    assert not settling.is_contradicted_by(reading(1, 1))
    settling.note(reading(5, 20), 0.2)
    assert settling.low_water == 0
