"""Facts: whatever strangers write becomes one clean line; fragments are joined by trust; JSON goes there and back."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from onboarding.facts import (
    LONG,
    MOST_ITEMS,
    Facts,
    News,
    Offer,
    Picture,
    Section,
    clean,
    from_document,
    merge,
    to_document,
)

texts = st.text(max_size=30).map(clean)


@given(st.text(alphabet=st.characters(codec=None), max_size=400), st.integers(min_value=1, max_value=200))
def test_a_clean_text_is_one_bounded_line_that_any_json_takes(text: str, limit: int) -> None:
    line = clean(text, limit)

    assert len(line) <= limit
    assert line == line.strip()
    assert not any(ord(character) < 32 or 0xD800 <= ord(character) <= 0xDFFF for character in line)
    line.encode("utf-8")


def test_what_is_no_text_and_no_number_is_empty() -> None:
    assert [clean(value) for value in (None, True, ["a"], {"a": 1}, 4.5, 7)] == ["", "", "", "", "4.5", "7"]


def test_a_longer_text_says_that_it_was_cut() -> None:
    assert clean("word " * 500, LONG).endswith("word…")


def test_the_first_text_wins_and_lists_are_joined_without_repeats() -> None:
    merged = merge(
        [
            Facts(phone="1", offers=(Offer("Roll", "1"),)),
            Facts(name="Trusted", phone="2", offers=(Offer("Roll", "1"), Offer("Loaf", "3"))),
        ]
    )

    assert (merged.name, merged.phone) == ("Trusted", "1")
    assert merged.offers == (Offer("Roll", "1"), Offer("Loaf", "3"))


def test_a_picture_is_listed_once_with_the_first_words_given_for_it() -> None:
    merged = merge(
        [Facts(pictures=(Picture("u"), Picture("v", "other"))), Facts(pictures=(Picture("u", "words"),))]
    )

    assert merged.pictures == (Picture("u", "words"), Picture("v", "other"))


def test_lists_stay_bounded() -> None:
    many = Facts(links=tuple(str(number) for number in range(500)))

    assert len(merge([many]).links) == MOST_ITEMS


def test_nothing_known_is_zero() -> None:
    assert Facts().known == 0
    assert Facts(name="x", links=("a", "b")).known == 3


@given(
    st.builds(
        Facts,
        name=texts,
        phone=texts,
        opening_hours=st.lists(texts, max_size=3).map(tuple),
        offers=st.lists(st.builds(Offer, texts, texts), max_size=3).map(tuple),
        news=st.lists(st.builds(News, texts, texts, texts), max_size=3).map(tuple),
        sections=st.lists(st.builds(Section, texts, texts, texts), max_size=3).map(tuple),
        pictures=st.lists(st.builds(Picture, texts, texts), max_size=3).map(tuple),
    )
)
def test_facts_go_to_json_and_back(facts: Facts) -> None:
    assert from_document(json.loads(json.dumps(to_document(facts)))) == facts
