"""Backoff: the delays of the contract, and no attempt number or server delay that breaks them (F55)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.core import backoff

CHANCE = st.floats(min_value=0.0, max_value=1.0, exclude_max=True)


@pytest.mark.parametrize(
    ("attempt", "seconds"),
    [
        (1, 5),
        (2, 10),
        (3, 20),
        (4, 40),
        (7, 320),
        (8, 600),
        (31, 600),
        (64, 600),
        (99, 600),
        (1100, 600),
        (10**6, 600),
    ],
)
def test_the_delay_doubles_from_five_seconds_to_ten_minutes(attempt: int, seconds: float) -> None:
    assert backoff.delay(attempt) == seconds


@pytest.mark.case("F55")
@given(st.integers())
def test_no_attempt_number_leaves_the_bounds(attempt: int) -> None:
    assert 5.0 <= backoff.delay(attempt) <= 600.0


@pytest.mark.case("F55")
@given(st.floats(min_value=0, max_value=600), CHANCE)
def test_jitter_takes_at_most_a_fifth_off(seconds: float, chance: float) -> None:
    assert seconds * 0.799 <= backoff.jittered(seconds, chance) <= seconds


def test_jitter_spreads_over_the_whole_fifth() -> None:
    assert backoff.jittered(100.0, 0.0) == 100.0
    assert backoff.jittered(100.0, 0.999) == pytest.approx(80.0, abs=0.1)


@pytest.mark.case("F55")
@given(st.floats(min_value=0, max_value=86400), CHANCE)
def test_a_delay_given_by_a_server_is_never_shortened(seconds: float, chance: float) -> None:
    assert seconds <= backoff.on_top(seconds, chance) <= seconds * 1.2 + 1e-9
    assert backoff.on_top(seconds, chance) <= seconds + 60


@given(st.floats(), CHANCE)
def test_any_float_becomes_a_delay_that_can_be_stored(seconds: float, chance: float) -> None:
    for delay in (backoff.jittered(seconds, chance), backoff.on_top(seconds, chance)):
        assert math.isfinite(delay)
        assert delay >= 0.0
