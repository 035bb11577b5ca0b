"""JSON with exact numbers: digit by digit in, digit by digit out, and a path for what can't be carried (F52)."""

from __future__ import annotations

import json
import uuid
from collections import namedtuple
from decimal import Decimal
from enum import IntEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.core import jsontext

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"))
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**50), max_value=10**50)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT


def trees(leaves: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=20)


def digit_by_digit(text: str) -> object:
    return json.loads(text, parse_float=Decimal)


class Level(IntEnum):
    HIGH = 3


Pair = namedtuple("Pair", ["left", "right"])


@given(trees(SCALARS))
def test_what_is_encoded_is_decoded_to_an_equal_value(value: object) -> None:
    assert jsontext.loads(jsontext.dumps(value)) == value


@given(trees(SCALARS | DECIMALS))
def test_what_is_decoded_and_encoded_again_is_the_same_number_by_number(value: object) -> None:
    text = jsontext.dumps(value)

    assert digit_by_digit(jsontext.dumps(jsontext.loads(text))) == digit_by_digit(text)


@given(DECIMALS)
def test_a_decimal_keeps_its_digits(number: Decimal) -> None:
    assert Decimal(jsontext.dumps(number)) == number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9007199254740993", 9007199254740993),
        ("1" + "0" * 40, 10**40),
        ("0.1", 0.1),
        ("0.10", 0.1),
        ("1.0", 1.0),
        ("1e400", Decimal("1e400")),
        ("-1e400", Decimal("-1e400")),
        ("1e-400", Decimal("1e-400")),
        ("0.12345678901234567890123", Decimal("0.12345678901234567890123")),
        ("9007199254740993.0", Decimal("9007199254740993.0")),
        ("123456789.123456789123", Decimal("123456789.123456789123")),
    ],
)
def test_numbers_are_read_exactly(text: str, value: object) -> None:
    decoded = jsontext.loads(f'{{"n": {text}}}')

    assert decoded == {"n": value}
    assert isinstance(decoded, dict)
    assert type(decoded["n"]) is type(value)


def test_an_integer_of_more_digits_than_python_converts_survives() -> None:
    text = "7" * 6000

    assert jsontext.dumps(jsontext.loads(text)) == text


@pytest.mark.parametrize(
    "text", ["NaN", "[Infinity]", "-Infinity", "", "{", "[1,]", "[" * 100_000, '{"a":' * 100_000]
)
def test_text_that_is_not_json_is_refused_as_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        jsontext.loads(text)


def nested(depth: int) -> list[object]:
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    return value


def circular() -> dict[str, object]:
    value: dict[str, object] = {}
    value["items"] = [value]
    return value


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"items": [0, 1, 2, {"name": float("nan")}]}, r"\$\.items\[3\]\.name: nan is not a JSON number"),
        ([float("inf")], r"\$\[0\]: inf"),
        ([Decimal("NaN")], r"\$\[0\]: NaN"),
        ([Decimal("sNaN")], r"\$\[0\]: sNaN"),
        ([Decimal("-Infinity")], r"\$\[0\]: -Infinity"),
        ([Decimal("1e200000")], "beyond what PostgreSQL"),
        ([Decimal("1e-20000")], "beyond what PostgreSQL"),
        ([10**5000], "more than 4300 digits"),
        ({"a": {"b": "x\x00y"}}, r"\$\.a\.b: contains a NUL"),
        ({"a\x00": 1}, r"\$: a key contains a NUL"),
        (["\ud800"], r"\$\[0\]: contains a lone surrogate \(U\+D800\)"),
        ({"\udfff": 1}, r"\$: a key contains a lone surrogate"),
        ({1: "one"}, r"\$: key 1 is not a string"),
        ({"a": {None: 1}}, r"\$\.a: key None is not a string"),
        ([{(1, 2): 3}], r"\$\[0\]: key \(1, 2\) is not a string"),
        ({"id": uuid.UUID(int=0)}, r"\$\.id: UUID is not a JSON value"),
        ({"tags": {"a"}}, r"\$\.tags: set is not a JSON value"),
        (b"bytes", r"\$: bytes is not a JSON value"),
        (circular(), r"\$\.items\[0\]: contains itself"),
        (nested(100_000), r"nested too deeply"),
    ],
)
def test_what_can_not_be_stored_is_refused_with_its_path(value: object, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        jsontext.dumps(value)


@pytest.mark.parametrize("value", [[Decimal("1.50"), "é"], [1.5, "é"]])
def test_text_is_compact_and_not_escaped(value: object) -> None:
    assert jsontext.dumps(value).endswith(',"é"]')


def test_a_backslash_before_u0000_is_ordinary_text() -> None:
    assert json.loads(jsontext.dumps({"a": "\\u0000"})) == {"a": "\\u0000"}


def test_tuples_and_subclasses_become_their_plain_kind() -> None:
    assert jsontext.dumps([Pair(1, 2), Level.HIGH]) == "[[1,2],3]"
    assert jsontext.dumps([Pair(1, Decimal("2.0")), Level.HIGH]) == "[[1,2.0],3]"


def test_one_value_in_two_places_is_not_a_circle() -> None:
    shared = {"n": Decimal(1)}

    assert jsontext.dumps([shared, shared]) == '[{"n":1},{"n":1}]'


def test_a_text_over_its_limit_is_refused_by_name_and_size() -> None:
    jsontext.check_size("é" * 50, 100, "the result")

    with pytest.raises(ValueError, match="the result is 102 bytes long; at most 100 are allowed"):
        jsontext.check_size("é" * 51, 100, "the result")
