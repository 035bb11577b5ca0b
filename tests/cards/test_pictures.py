"""Messages as people see them: laid out in a browser, on a phone and in a window, by day and by night.

`PICTURES=/tmp/pictures make test ARGS=tests/cards` writes them as PNGs, for people to look at.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.browser import Browser, running_browser
from support.looking import BETWEEN_CHARACTERS, DEPTH, PROBLEMS, SEEN
from support.pictured import ERRORS, SUBJECTS, VENDORS, messages, pages
from wakeful.core.alert_settings import AlertSettings
from wakeful.outbox.cards.shortening import MARK, cut, utf16_units
from wakeful.outbox.rules import RULES
from wakeful.outbox.specimens import names, specimen_of
from wakeful.telemetry.redaction import Redactor

FOLDER = os.environ.get("PICTURES", "")
SCREENS = ((320, "light"), (320, "dark"), (600, "light"))
SCREEN = 640  # what a phone shows at once, in pixels
WORDS = {
    "opened": "new",
    "updated": "goes on",
    "reminder": "still open",
    "resolved": "RESOLVED",
    "digest": "summary",
    "test": "test",
}


@dataclass(frozen=True, slots=True)
class Seen:
    """What is seen of a message: its text, and where its links lead."""

    text: str
    links: frozenset[str]


vendors = pytest.mark.parametrize("vendor", VENDORS)
CASES = [
    *(("English", length) for length in ("a line", "200 KB", "a traceback")),
    *(("Korean", length) for length in ("a line", "200 KB")),
]
cases = pytest.mark.parametrize(("language", "length"), CASES)
long_ones = pytest.mark.parametrize(("language", "length"), CASES[1:2] + CASES[-1:])


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if FOLDER:
        Path(FOLDER).mkdir(parents=True, exist_ok=True)
    with running_browser() as browser:
        yield browser


@vendors
@cases
def test_nothing_overflows_and_everything_can_be_read_by_day_and_by_night(
    browser: Browser, vendor: str, language: str, length: str
) -> None:
    wrong = []
    for name, page in pages(vendor, messages(language, length)).items():
        for width, scheme in SCREENS:
            browser.show(page, width=width, scheme=scheme)
            problems = browser.evaluate(f"{PROBLEMS}({width})")
            wrong += [f"{name} {width} {scheme} {problem}" for problem in problems]
            if FOLDER:
                named = f"{vendor}-{language}-{length}-{name}-{width}-{scheme}.png"
                browser.picture(Path(FOLDER) / named.replace(" ", "_"))

    assert wrong == []


def seen(browser: Browser, vendor: str, texts: dict[str, str]) -> dict[str, Seen]:
    """What is seen of each message."""
    found: dict[str, Seen] = {}
    for name, page in pages(vendor, texts).items():
        browser.show(page, width=320)
        for card, told in browser.evaluate(SEEN).items():
            found[card if name == "all" else name] = Seen(told["text"], frozenset(told["links"]))
    return found


@vendors
@cases
def test_what_people_need_is_seen(browser: Browser, vendor: str, language: str, length: str) -> None:
    texts = dict(messages(language, length))
    cards = seen(browser, vendor, texts)

    for state in ("opened", "updated", "reminder"):
        text = cards[state].text
        error = ERRORS[language][:30]
        since = "2026-12-01 05:48:18 UTC (for 24 min)"
        for needed in ("COLLECT died", "37 times", since, "5 of 5", "production", error):
            assert needed in text, (state, needed)
        assert SUBJECTS[language] in text
        assert "Since" in text and "Last" in text
        assert vendor == "pagerduty" or WORDS[state] in text
        assert vendor == "text" or len(cards[state].links) == 2
    assert ("resolve" if vendor == "pagerduty" else "RESOLVED") in cards["resolved"].text
    assert vendor == "pagerduty" or "it has not happened again" in cards["resolved"].text
    assert "Only a person who sees it here knows" in cards["test"].text


@vendors
@long_ones
def test_a_summary_says_how_many_alerts_there_are_in_all(
    browser: Browser, vendor: str, language: str, length: str
) -> None:
    card = seen(browser, vendor, {"digest": messages(language, length)["digest"]})["digest"]

    text = card.text
    listed = text.count("COLLECT died")
    assert listed > 1
    assert f"and {20 - listed + 12} more alerts" in text
    assert text.count(" times") >= listed  # each with its count, and the sum


@vendors
@long_ones
def test_on_a_phone_the_error_and_how_often_are_on_the_first_screen(
    browser: Browser, vendor: str, language: str, length: str
) -> None:
    text = messages(language, length)["opened"]
    (page,) = pages(vendor, {"opened": text}).values()
    browser.show(page, width=320)

    for wanted in ("37 times", "05:48:18 UTC", ERRORS[language][:10]):
        depth = browser.evaluate(f"{DEPTH}('opened', {json.dumps(wanted)})")
        assert depth is not None and depth < SCREEN, (wanted, depth)


CHARACTERS = [
    *("a", "한", "\u1112\u1161\u11ab", "\ud7a3\u11a8", "\u1100\uac00", "e\u0301", "\u0915\u094d\u0937\u093f"),
    *("\u0e01\u0e33", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f44d\U0001f3fd", "\u2764\ufe0f"),
    *(
        "\U0001f1f0\U0001f1f7",
        "1\ufe0f\u20e3",
        "\U0001f3f4\U000e0067\U000e0062\U000e007f",
        "\u05e9\u05b8",
        " ",
    ),
]


def test_what_a_browser_holds_for_one_character_is_never_cut_in_two(browser: Browser) -> None:
    pairs, texts = [], []
    for one in CHARACTERS:
        for other in CHARACTERS:
            text = (one + other) * 12
            for most in range(10, 30):
                kept = cut(text, most).removesuffix(MARK)
                begins = len(text) - len(text[len(kept) :])
                pairs.append([text, utf16_units(text[:begins])])
                texts.append((text, most))

    judged = browser.evaluate(f"{BETWEEN_CHARACTERS}({json.dumps(pairs)})")

    assert len(judged) == len(pairs)
    assert [text for text, fine in zip(texts, judged, strict=True) if not fine] == []


CONDITIONS = [rule.name for rule in RULES]
NOW = datetime(2026, 12, 1, 6, 12, tzinfo=UTC)
SETTINGS = AlertSettings(
    environment="production", public_url="https://wakeful.example.com", link_key="not-a-secret" * 4
)


@vendors
def test_each_alert_that_rules_make_can_be_read_and_has_its_buttons(browser: Browser, vendor: str) -> None:
    texts = {name: specimen_of(name, SETTINGS, Redactor(), now=NOW).body for name in names()}
    wrong = []
    for name, page in pages(vendor, texts).items():
        browser.show(page, width=320, scheme="dark")
        wrong += [f"{name} {problem}" for problem in browser.evaluate(f"{PROBLEMS}(320)")]
        if FOLDER:
            browser.picture(Path(FOLDER) / f"specimens-{vendor}-{name}.png")

    assert wrong == []
    assert {name for name, text in texts.items() if json.loads(text)["data"]["advice"]} == set(CONDITIONS)
    for name, card in seen(browser, vendor, texts).items():
        data = json.loads(texts[name])["data"]
        shown = " ".join(card.text.split())
        assert data["title"][:100] in shown, name
        assert (data["advice"] or "") in shown, name
        assert vendor == "text" or card.links == {link["url"] for link in data["links"]}, name
