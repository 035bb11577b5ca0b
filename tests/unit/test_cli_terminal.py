"""What is written to a terminal: nothing of a user's text acts on it, and columns line up."""

from __future__ import annotations

import json
import unicodedata
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from wakeful.cli.terminal import age, block, moment, stored_moment, table, to_json, visible

ANY_TEXT = st.text(st.characters(codec=None))
BIDI = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u061c")


@given(ANY_TEXT)
def test_nothing_that_acts_on_a_terminal_is_visible(text: str) -> None:
    shown = visible(text)
    assert not any(unicodedata.category(one) in ("Cc", "Cs", "Zl", "Zp") or one in BIDI for one in shown)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\x00")))
def test_json_is_one_safe_line_with_the_same_text(text: str) -> None:
    line = to_json({"text": text})
    assert visible(line) == line
    assert json.loads(line) == {"text": text}


@given(ANY_TEXT)
def test_a_block_stays_indented(text: str) -> None:
    assert all(line.startswith("    ") for line in block(text).split("\n") if line)


def test_a_stored_time_looks_like_any_other_and_what_is_none_is_shown_as_it_is() -> None:
    at = datetime(2026, 12, 1, 17, 28, 32, 268590, tzinfo=UTC)
    assert stored_moment("2026-12-01T17:28:32.26859+00:00") == moment(at)
    assert stored_moment("so\x1bon") == "so\\x1bon"


def test_columns_line_up_also_for_wide_letters() -> None:
    lines = table(("NAME", "WHAT"), [("서울", "x"), ("ab", "y")], width=None)
    assert lines == ["NAME  WHAT", "서울  x", "ab    y"]


def test_the_last_column_is_cut_to_the_width_but_never_to_nothing() -> None:
    (_, row) = table(("NAME", "WHAT"), [("a", "x" * 100)], width=30)
    assert row == "a     " + "x" * 23 + "…"
    (_, row) = table(("NAME", "WHAT"), [("a" * 40, "x" * 100)], width=30)
    assert row == "a" * 40 + "  " + "x" * 11 + "…"


def test_ages_are_said_in_one_unit() -> None:
    assert [age(seconds) for seconds in (None, -1, 0.9, 59, 60, 3600, 86400 * 9.9)] == [
        *("", "0s", "0s", "59s", "1m", "1h", "9d")
    ]
