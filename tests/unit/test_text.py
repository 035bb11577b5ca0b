"""Text of handlers on its way into the database: clean, bounded, and never the cause of another error (F52)."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.core.text import CUT_MARK, clean, clean_middle, describe_exception

ANY_TEXT = st.text(st.characters(exclude_categories=()))
GOOD_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20)


class Unprintable:
    def __str__(self) -> str:
        raise SystemExit(3)

    __repr__ = __str__


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text for you")

    __repr__ = __str__


class NotText:
    __str__ = cast("Callable[[NotText], str]", lambda _self: 7)


class ShadowedName(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise RuntimeError("nameless")


class Nameless(Exception, metaclass=ShadowedName):
    pass


class Sly(str):
    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError("sly")


def storable(text: str) -> bool:
    return "\x00" not in text and text.encode("utf-8").decode("utf-8") == text


def raised(exc: BaseException) -> BaseException:
    try:
        raise exc
    except BaseException as caught:  # noqa: BLE001 -- the very point
        return caught


@given(ANY_TEXT, st.integers(min_value=0, max_value=50))
def test_any_text_becomes_storable_and_bounded(text: str, limit: int) -> None:
    for cleaned in (clean(text, limit), clean_middle(text, limit)):
        assert storable(cleaned)
        assert len(cleaned.encode()) <= limit


@given(GOOD_TEXT)
def test_good_text_within_the_limit_is_left_alone(text: str) -> None:
    assert clean(text, 100) == text
    assert clean_middle(text, 100) == text


def test_a_nul_and_a_lone_surrogate_leave_a_visible_sign() -> None:
    assert clean("a\x00b\ud800c", 100) == "a\u2400b\ufffdc"


def test_a_cut_falls_between_characters_and_is_marked() -> None:
    cut = clean("é" * 100, 51)

    assert cut == "é" * 21 + CUT_MARK
    assert len(cut.encode()) == 50


def test_a_cut_in_the_middle_keeps_both_ends() -> None:
    cut = clean_middle("start" + "x" * 10_000 + "end", 200)

    assert cut.startswith("start")
    assert cut.endswith("xend")
    assert CUT_MARK in cut


def test_a_value_without_a_text_is_named_by_its_type() -> None:
    assert clean(Unprintable(), 200) == "<Unprintable without a readable text>"
    assert clean(UnprintableError(), 200) == "<UnprintableError without a readable text>"
    assert clean(NotText(), 200) == "<NotText without a readable text>"
    assert clean(10**5000, 200) == "<int without a readable text>"


def test_a_name_or_a_text_that_lies_about_itself_does_no_harm() -> None:
    assert "test_text.Nameless" in clean(Nameless, 200)
    assert clean(Nameless(), 200) == ""
    assert clean(Sly("text"), 200) == "text"


def test_an_exception_is_stored_with_type_message_and_traceback() -> None:
    entry = describe_exception(raised(ValueError("bad page")))

    assert entry.summary == "ValueError: bad page"
    assert entry.traceback is not None
    assert "in raised" in entry.traceback
    assert entry.traceback.rstrip().endswith("ValueError: bad page")


def test_a_message_that_postgres_refuses_is_stored_clean_everywhere() -> None:
    entry = describe_exception(raised(ValueError("a\x00b\udc80")))

    assert entry.message == "a\u2400b\ufffd"
    assert storable(entry.traceback or "")


@pytest.mark.parametrize(
    "exc", [UnprintableError(), Nameless("x"), SystemExit(2), KeyboardInterrupt(), StopIteration(5)]
)
def test_no_exception_is_too_odd_to_describe(exc: BaseException) -> None:
    entry = describe_exception(raised(exc))

    assert entry.type == type.__dict__["__name__"].__get__(type(exc))
    assert storable(entry.summary)


def test_an_entry_is_bounded_whatever_the_message() -> None:
    entry = describe_exception(raised(ValueError("ü" * 1_000_000)), limit=2000)

    size = sum(len(text.encode()) for text in (entry.type, entry.message, entry.traceback or ""))
    assert size <= 2000
    assert CUT_MARK in entry.message


def test_a_long_chain_of_causes_is_cut_at_its_far_end() -> None:
    exc: BaseException = ValueError("first")
    for number in range(3000):
        following = ValueError(f"number {number}")
        following.__cause__ = exc
        exc = following

    entry = describe_exception(raised(exc))

    assert (entry.traceback or "").rstrip().endswith("ValueError: number 2999")


def test_a_handler_that_recurses_without_end_is_described() -> None:
    def forever() -> None:
        forever()

    with pytest.raises(RecursionError) as caught:
        forever()
    entry = describe_exception(caught.value)

    assert entry.type == "RecursionError"
    assert "forever" in (entry.traceback or "")


def test_a_cause_that_is_its_own_cause_ends() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first

    assert describe_exception(first).summary == "ValueError: first"


def test_a_group_round_one_exception_is_named_by_it() -> None:
    group = ExceptionGroup("unhandled errors", [ExceptionGroup("inner", [KeyError("place")])])

    entry = describe_exception(raised(group))

    assert entry.summary == "KeyError: 'place'"
    assert "unhandled errors" in (entry.traceback or "")


def test_a_group_names_its_members() -> None:
    entry = describe_exception(ExceptionGroup("two", [ValueError("a"), KeyError("b")]))

    assert entry.summary == "ExceptionGroup: two (2 sub-exceptions): ValueError: a; KeyError: 'b'"


def test_a_traceback_that_can_not_be_formatted_costs_only_the_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_args: object, **_named: object) -> None:
        raise MemoryError

    monkeypatch.setattr(traceback.TracebackException, "from_exception", refuse)

    entry = describe_exception(ValueError("kept"))

    assert entry.summary == "ValueError: kept"
    assert entry.traceback == "(the traceback could not be formatted)"
