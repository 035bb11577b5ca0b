"""Messages full of what people and programs put into texts: within every vendor's rules, as it is, and still true."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Mapping
from email import message_from_bytes

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.card_rules import discord_problems, pagerduty_problems, slack_problems, teams_problems
from support.messages import body
from support.pictured import CHATS, KEY, mailed
from support.vendor_pages import letter_page
from wakeful.outbox.cards.adaptive import adaptive_message
from wakeful.outbox.cards.blocks import slack_message
from wakeful.outbox.cards.document import read
from wakeful.outbox.cards.embeds import discord_message
from wakeful.outbox.cards.incidents import pagerduty_event
from wakeful.outbox.cards.plain import LARGEST_BYTES, plain_message
from wakeful.outbox.cards.shortening import MARK, cut
from wakeful.outbox.sinks import discord, pagerduty, slack, teams, webhook

Problems = Callable[[bytes], list[str]]
Card = Callable[[bytes], str]

FRAGMENTS = [
    *(
        "@everyone",
        "@here",
        "<!channel>",
        "<!here|x>",
        "<@U012345>",
        "<#C012345>",
        "<@&123>",
        "<t:1:R>",
        ":skull:",
    ),
    *(
        "[x](http://evil.example)",
        "<http://evil.example|x>",
        "http://evil.example/a?b=c&d",
        "javascript:alert(1)",
    ),
    *(
        "`",
        "```",
        "**b**",
        "_i_",
        "*b*",
        "~~s~~",
        "||s||",
        "# h",
        "> q",
        "-# s",
        "1. a",
        "\\",
        "{{TIME()}}",
        "${x}",
    ),
    *(
        "<script>alert(1)</script>",
        "&amp;",
        "&",
        "'",
        '"',
        "]]>",
        "%00",
        "=?utf-8?q?=0A?=",
        "\r\nBcc: a@b.example",
    ),
    *(
        "\u202e",
        "\u2066",
        "\u200b",
        "\u200d",
        "\ufeff",
        "\u00ad",
        "\u3164",
        "\x00",
        "\x1b[31m",
        "\ud83d",
        "\udc00",
    ),
    *(
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",
        "\U0001f44d\U0001f3fd",
        "\U0001f1f0\U0001f1f7",
        "e\u0301" * 9,
    ),
    *(
        "한국어",
        "\u1112\u1161\u11ab\u1100\u116e\u11a8",
        "שלום",
        "مرحبا",
        "a" * 400,
        " ",
        "\n",
        "\t",
        "None",
        "null",
    ),
]
texts = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=8), max_size=30).map("".join)
hostile = st.tuples(texts, st.sampled_from([1, 1, 3, 4000])).map(
    lambda drawn: (drawn[0] * drawn[1])[:200_000]
)
HEADERS = {
    *("From", "To", "Subject", "Date", "Message-ID", "In-Reply-To", "References", "List-Id"),
    *("Auto-Submitted", "X-Auto-Response-Suppress", "MIME-Version", "Content-Type"),
}


def letter_problems(raw: bytes) -> list[str]:
    """A letter has its own headers and no others, and no line that is too long for a server."""
    wrong = sorted(set(message_from_bytes(raw).keys()) ^ HEADERS)
    return wrong + [
        f"a line of {len(line)}" for line in raw.split(b"\r\n") if len(line) > 998 or b"\n" in line
    ]


VENDORS: Mapping[str, tuple[Card, Callable[[str], bytes], Problems]] = {
    "teams": (CHATS["teams"][1], adaptive_message, teams_problems),
    "slack": (CHATS["slack"][1], slack_message, slack_problems),
    "discord": (CHATS["discord"][1], discord_message, discord_problems),
    "pagerduty": (CHATS["pagerduty"][1], lambda text: pagerduty_event(text, KEY), pagerduty_problems),
    "a letter's text": (CHATS["text"][1], mailed, letter_problems),
    "a letter's page": (letter_page, mailed, letter_problems),
    "teams, smaller": (
        CHATS["teams"][1],
        lambda text: adaptive_message(text, teams.SMALLER_BYTES),
        teams_problems,
    ),
    "slack, smaller": (
        CHATS["slack"][1],
        lambda text: slack_message(text, slack.SMALLER_BYTES),
        slack_problems,
    ),
    "discord, smaller": (
        CHATS["discord"][1],
        lambda text: discord_message(text, discord.SMALLER),
        discord_problems,
    ),
    "pagerduty, smaller": (
        CHATS["pagerduty"][1],
        lambda text: pagerduty_event(text, KEY, pagerduty.SMALLER_BYTES),
        pagerduty_problems,
    ),
}
vendors = pytest.mark.parametrize(("show", "post", "problems"), VENDORS.values(), ids=VENDORS)


def seen(card: str) -> str:
    """The text of a card as it is read."""
    others = re.sub(r"<b>(Over because|How often|Since|Last|What to do):</b>", "", card)
    assert not re.search(r'class="(unasked|mention|spoiler)"|<script|<b>|<i>|<s>', others)
    return html.unescape(re.sub(r"<style>.*?</style>|<[^>]*>", "", card))


@vendors
@settings(max_examples=8, deadline=None)
@given(title=hostile, error=hostile, subject=texts, environment=texts)
def test_every_text_is_shown_as_it_is_and_every_count_is_whole(
    show: Card,
    post: Callable[[str], bytes],
    problems: Problems,
    title: str,
    error: str,
    subject: str,
    environment: str,
) -> None:
    samples = [{"job_id": subject, "subject": subject, "error": error}] * 20
    text = body(
        title=title,
        error=error,
        subject=subject,
        environment=environment,
        samples=samples,
        job_type=subject,
        dedupe_key=title,
        occurrences=987_654_321,
        attempts={"made": 123, "most": 456},
    )

    posted = post(text)

    assert problems(posted) == []
    card = seen(show(posted))
    assert "987,654,321 times" in card
    assert "123 of 456" in card
    assert cut(read(text).notice.title, 50).removesuffix(MARK) in card
    assert cut(read(text).notice.subject, 40).removesuffix(MARK) in card


@vendors
@settings(max_examples=5, deadline=None)
@given(title=hostile, number=st.integers(1, 40), more=st.integers(0, 99_999))
def test_the_alerts_of_a_summary_and_those_that_it_leaves_out_are_all_of_them(
    show: Card, post: Callable[[str], bytes], problems: Problems, title: str, number: int, more: int
) -> None:
    alerts = [
        {"alert_id": n, "title": title, "severity": "error", "occurrences": 1_000_000 + n, "state": "open"}
        for n in range(number)
    ]

    posted = post(
        body("alert.digest", kind="digest", title="a summary", alerts=alerts, more=more, samples=[])
    )

    assert problems(posted) == []
    card = seen(show(posted))
    listed = len(re.findall(r"\(1,000,\d\d\d times\)", card))
    left_out = re.findall(r"and ([\d,]+) more alert", card)
    assert listed + sum(int(one.replace(",", "")) for one in left_out) == number + more


@settings(max_examples=8, deadline=None)
@given(title=hostile, error=hostile, most=st.sampled_from([LARGEST_BYTES, webhook.SMALLER_BYTES]))
def test_a_program_reads_every_number_as_it_is(title: str, error: str, most: int) -> None:
    text = body(title=title, error=error, occurrences=987_654_321, details={"last_error": error})

    posted = plain_message(text, most)

    document = json.loads(posted.decode("utf-8"))
    assert len(posted) <= most
    assert document["data"]["occurrences"] == 987_654_321
    assert document["data"]["attempts"] == {"made": 5, "most": 5}
    assert document.get("cut", False) == (len(text.encode("utf-8", errors="replace")) > most)


@pytest.mark.parametrize(
    "blank", ["\u200b", "\u3164\u3164", "\u2060\u00ad", " \u00a0\u2003", "\u0301", "\x00\x01"]
)
def test_a_text_that_nobody_would_see_counts_as_none(blank: str) -> None:
    notice = read(body(title=blank, error=blank, subject=blank)).notice

    assert (notice.title, notice.error, notice.subject) == ("job_dead", "", "")


def test_marks_that_pile_up_on_a_letter_do_not_cover_the_lines_around_it() -> None:
    title = read(body(title="e" + "\u0301" * 500 + " died")).notice.title

    assert title.startswith("e\u0301") and title.endswith(" died")
    assert title.count("\u0301") <= 8


def test_korean_that_is_written_in_parts_stays_as_it_is() -> None:
    in_parts = "\u1112\u1161\u11ab\u1100\u116e\u11a8"

    assert read(body(title=in_parts)).notice.title == in_parts
