"""Cursors: never above what is settled, never above what a sweep has found."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wakeful.core.cursors import MOST_LANES, Cursors


def test_a_lane_that_nobody_has_claimed_from_is_looked_at_from_its_head() -> None:
    assert Cursors().after(1) == 0


def test_a_cursor_follows_the_claims_as_far_as_positions_are_settled() -> None:
    cursors = Cursors()
    cursors.claimed(1, 50, 100)
    assert cursors.after(1) == 50

    cursors.claimed(1, 150, 100)
    assert cursors.after(1) == 100


def test_before_anything_is_settled_it_stays_at_the_head() -> None:
    cursors = Cursors()
    cursors.claimed(1, 50, 0)

    assert cursors.after(1) == 0


def test_what_was_claimed_is_swept_once_as_far_as_it_is_settled() -> None:
    cursors = Cursors()
    cursors.claimed(1, 150, 100)
    assert cursors.to_sweep(100) == [(1, 0)]
    assert cursors.swept([(1, 0)], {}, 100) == []
    assert cursors.to_sweep(100) == []
    assert cursors.wants_sweep

    assert cursors.to_sweep(200) == [(1, 100)]
    cursors.swept([(1, 100)], {}, 200)
    assert not cursors.wants_sweep
    assert cursors.after(1) == 200


def test_a_job_that_a_sweep_finds_takes_the_cursor_back_to_just_before_it() -> None:
    cursors = Cursors()
    cursors.claimed(1, 90, 100)
    cursors.claimed(2, 95, 100)

    assert cursors.swept(cursors.to_sweep(100), {1: 40}, 100) == [1]
    assert (cursors.after(1), cursors.after(2)) == (39, 100)
    # The next claim looks at all that lies above; until then there is nothing to sweep.
    assert not cursors.wants_sweep


def test_a_job_that_waits_in_front_is_no_way_back() -> None:
    cursors = Cursors()
    cursors.claimed(1, 50, 100)

    assert cursors.swept([(1, 0)], {1: 80}, 100) == []
    assert cursors.after(1) == 79


def test_the_end_of_a_transaction_that_was_passed_over_has_all_lanes_swept_again_from_there() -> None:
    cursors = Cursors()
    cursors.claimed(1, 90, 100)
    cursors.claimed(2, 30, 100)
    cursors.swept(cursors.to_sweep(100), {}, 100)
    assert cursors.to_sweep(100) == []

    cursors.unsettle(60)
    assert cursors.to_sweep(100) == [(1, 60), (2, 60)]


def test_a_job_that_a_look_finds_takes_the_cursor_back() -> None:
    cursors = Cursors()
    cursors.claimed(1, 90, 100)
    cursors.found(1, 95)
    assert cursors.after(1) == 90

    cursors.found(1, 20)
    assert cursors.after(1) == 19
    cursors.found(2, 20)
    assert cursors.after(2) == 0


def test_a_lane_begins_before_the_first_job_that_a_look_saw_as_far_as_positions_are_settled() -> None:
    cursors = Cursors()
    cursors.begin(1, 50, 100)
    cursors.begin(2, 150, 100)
    cursors.begin(3, 50, 0)

    assert [cursors.after(lane) for lane in (1, 2, 3)] == [49, 100, 0]
    assert not cursors.wants_sweep  # the look has seen all that a sweep would


def test_where_claims_have_been_a_look_moves_no_cursor_on() -> None:
    cursors = Cursors()
    cursors.claimed(1, 30, 100)
    cursors.begin(1, 90, 100)

    assert cursors.after(1) == 30


def test_a_look_that_began_behind_the_head_begins_no_lane() -> None:
    """As when the lane's cursor was forgotten for those of too many others while it was looked at."""
    cursors = Cursors()
    cursors.begin(1, 90, 100, after=40)

    assert cursors.after(1) == 0


def test_a_lane_that_only_a_look_has_seen_is_swept_when_a_transaction_that_was_passed_over_ends() -> None:
    cursors = Cursors()
    cursors.begin(1, 90, 100)
    cursors.unsettle(60)

    assert cursors.to_sweep(100) == [(1, 60)]
    assert cursors.swept([(1, 60)], {1: 70}, 100) == [1]
    assert cursors.after(1) == 69


def test_known_lanes_come_in_the_order_of_their_ids() -> None:
    cursors = Cursors()
    for lane in (5, -3, 2):
        cursors.claimed(lane, 10, 10)

    assert cursors.known() == [(-3, 10), (2, 10), (5, 10)]


def test_of_too_many_lanes_those_that_were_claimed_from_least_lately_are_forgotten() -> None:
    cursors = Cursors()
    for lane in range(MOST_LANES):
        cursors.claimed(lane, 10, 10)
    cursors.claimed(0, 11, 11)
    cursors.claimed(MOST_LANES, 10, 10)

    assert cursors.after(0) == 11
    assert cursors.after(1) == 0
    assert len(cursors.known()) == MOST_LANES


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("claim"), st.integers(1, 100)),
        st.tuples(st.just("begin"), st.integers(1, 100)),
        st.tuples(st.just("settle"), st.integers(1, 100)),
        st.tuples(st.just("sweep"), st.integers(0, 100)),
        st.tuples(st.just("unsettle"), st.integers(0, 100)),
    )
)


@given(STEPS)
def test_whatever_happens_a_cursor_is_never_above_what_is_settled(steps: list[tuple[str, int]]) -> None:
    cursors, low_water = Cursors(), 0
    for step, number in steps:
        if step == "claim":
            cursors.claimed(1, number, low_water)
        elif step == "begin":
            cursors.begin(1, number, low_water)
        elif step == "settle":
            low_water = max(low_water, number)
        elif step == "unsettle":
            cursors.unsettle(number)
        else:
            ranges = cursors.to_sweep(low_water)
            seen = {lane: number for lane, floor in ranges if floor < number <= low_water}
            cursors.swept(ranges, seen, low_water)
        assert cursors.after(1) <= low_water
