"""Shortening: what is cut has its mark, fits, and is never cut inside what people see as one character."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.messages import body
from wakeful.outbox.cards.blocks import escaped
from wakeful.outbox.cards.document import read
from wakeful.outbox.cards.plain import LARGEST_BYTES, plain_message
from wakeful.outbox.cards.shortening import MARK, cut, utf16_units, worst_size


@given(st.text(), st.integers(0, 60))
def test_a_text_fits_in_whatever_it_is_measured_in(text: str, most: int) -> None:
    for size in (
        len,
        utf16_units,
        lambda one: len(escaped(one)),
        lambda one: len(one.encode(errors="replace")),
    ):
        short = cut(text, most, size=size)
        assert size(short) <= most
        assert short in (text, "") or (short.endswith(MARK) and text.startswith(short.removesuffix(MARK)))


@pytest.mark.parametrize(
    "character",
    [
        "e\u0301",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",
        "\U0001f44d\U0001f3fd",
        "\u1112\u1161\u11ab",
        "\u2764\ufe0f",
    ],
)
def test_what_is_seen_as_one_character_is_not_cut_in_two(character: str) -> None:
    for most in range(8, 60):
        rest = cut(character * 30, most).removesuffix(MARK)
        assert rest == character * (len(rest) // len(character))


def test_the_worst_encoding_counts() -> None:
    assert worst_size(b"abcd") == 8
    assert worst_size("한한".encode()) == 6
    assert worst_size("\N{SLICE OF PIZZA}".encode()) == 4


def test_a_message_for_programs_is_sent_as_it_is_and_cut_only_if_it_is_too_large() -> None:
    assert plain_message(body()) == body().encode()

    details = {
        "text": "한" * 50_000,
        "list": list(range(5000)),
        "deep": {"a": {"b": {"c": {"d": {"e": {"f": 1}}}}}},
    }
    sent = plain_message(body(details=details, number=1e308))

    assert len(sent) <= LARGEST_BYTES
    document = json.loads(sent)
    assert document["cut"] is True
    assert document["data"]["title"] == "COLLECT died: no prices"
    assert document["data"]["occurrences"] == 37


@pytest.mark.parametrize("number", ["1e999", "9" * 400, "NaN", "-Infinity", "1.5"])
def test_a_number_that_not_everybody_reads_loses_no_message(number: str) -> None:
    text = body(details={"n": "NUMBER", "long": "x" * 30_000}).replace('"NUMBER"', number)

    document = json.loads(plain_message(text), parse_constant=pytest.fail)

    assert document["data"]["alert_id"] == 7


@given(st.text(), st.text())
def test_what_is_read_can_be_shown_in_one_line(title: str, error: str) -> None:
    notice = read(body(title=title, error=error)).notice

    for text in (notice.title, notice.error):
        assert not any(ord(character) < 32 for character in text)
        assert len(text.splitlines()) <= 1
        text.encode("utf-8")


def test_the_last_line_of_an_error_is_shown_and_the_beginning_of_a_single_one() -> None:
    assert read(body(error="Traceback\n  frame\nValueError: last\n\n")).notice.error == "ValueError: last"
    assert read(body(error="first " * 10_000)).notice.error.startswith("first first")
    assert read(body(error="")).notice.error == ""


def test_signs_that_turn_the_direction_are_taken_out() -> None:
    assert read(body(title="\u202egpj.exe\u2066")).notice.title == "gpj.exe"


def test_half_of_a_pair_becomes_a_sign_that_can_be_sent() -> None:
    text = body(title="HALF", error="HALF").replace("HALF", "half \\ud83d of it")

    notice = read(text).notice

    assert notice.title == notice.error == "half \ufffd of it"
