"""Durations: every way to write one, and a clear refusal of what is none."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.core.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("30s", 30.0),
        ("5m", 300.0),
        ("1h", 3600.0),
        ("250ms", 0.25),
        ("7d", 604800.0),
        ("2w", 1209600.0),
        ("1h30m", 5400.0),
        (" 1.5 H ", 5400.0),
        ("90", 90.0),
        ("0.5", 0.5),
        (12, 12.0),
        (0, 0.0),
        (0.25, 0.25),
        (timedelta(minutes=2), 120.0),
    ],
)
def test_a_duration_is_read_as_seconds(written: object, seconds: float) -> None:
    assert parse_duration(written) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "written",
    ["", "s", "5 parsecs", "5mm", "-5s", "1e3", "٣s", "inf", "nan", True, None, [], float("nan"), "9" * 99],
)
def test_what_is_no_duration_is_refused_with_the_ways_to_write_one(written: object) -> None:
    with pytest.raises(ValueError, match="is not a duration: write"):
        parse_duration(written)


@pytest.mark.parametrize("written", [-1, -0.5, timedelta(seconds=-3), float("-inf")])
def test_a_negative_duration_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="is negative"):
        parse_duration(written)


@pytest.mark.parametrize("written", [float("inf"), 10**400, "99999d", timedelta.max])
def test_a_duration_past_ten_years_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="at most ten years"):
        parse_duration(written)


def test_an_integer_beyond_what_python_prints_is_refused_like_any_other() -> None:
    with pytest.raises(ValueError, match="an integer of many digits is too long"):
        parse_duration(10**5000)


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (0.0, "0s"),
        (0.25, "250ms"),
        (5.0, "5s"),
        (600.0, "10m"),
        (90.5, "90.5s"),
        (604800.0, "7d"),
        (5400, "90m"),
    ],
)
def test_a_duration_is_shown_in_the_largest_unit_that_divides_it(seconds: float, written: str) -> None:
    assert format_duration(seconds) == written


@given(st.integers(min_value=0, max_value=3650 * 86400))
def test_what_is_shown_is_read_back(seconds: int) -> None:
    assert parse_duration(format_duration(float(seconds))) == pytest.approx(seconds, rel=1e-5)
