"""What cards look like: within each vendor's rules for every message, and with what people need in it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.card_rules import discord_problems, pagerduty_problems, slack_problems, teams_problems
from support.messages import ENGLISH, KOREAN, PAYLOAD_VALUE, body, digest
from wakeful.outbox.cards import telling
from wakeful.outbox.cards.adaptive import adaptive_message
from wakeful.outbox.cards.blocks import slack_message
from wakeful.outbox.cards.document import read
from wakeful.outbox.cards.embeds import discord_message
from wakeful.outbox.cards.incidents import pagerduty_event
from wakeful.outbox.cards.shortening import MARK, Room

Render = Callable[[str], bytes]
Problems = Callable[[bytes], list[str]]


def event(text: str) -> bytes:
    return pagerduty_event(text, "R0UT1NGKEY")


VENDORS: dict[str, tuple[Render, Problems]] = {
    "teams": (adaptive_message, teams_problems),
    "slack": (slack_message, slack_problems),
    "discord": (discord_message, discord_problems),
    "pagerduty": (event, pagerduty_problems),
}
vendors = pytest.mark.parametrize(("render", "problems"), VENDORS.values(), ids=VENDORS)
TYPES = ["opened", "reminder", "resolved", "test", "invented"]
HARSH = [
    "한",
    "\N{FAMILY}",
    "\N{SLICE OF PIZZA}",
    "é",
    "e\u0301",
    "&",
    "<",
    "`",
    '"',
    "\\",
    "*",
    "x",
    " ",
    "\x00",
]


def markdown_free(rendered: bytes) -> str:
    """All that is said, as a reader sees it."""
    return rendered.decode().replace("\\\\", "")


@vendors
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("error", [ENGLISH, KOREAN], ids=["english", "korean"])
@pytest.mark.parametrize("length", [1, 200_000], ids=["a line", "200 KB"])
def test_each_message_is_within_the_rules(
    render: Render, problems: Problems, kind: str, error: str, length: int
) -> None:
    text = (error + " ") * (length // len(error.encode()) + 1)
    message = body(f"alert.{kind}", error=text, title=text, subject=text, resolved_reason="it is over")

    rendered = render(message)

    assert problems(rendered) == []
    assert render(message) == rendered


@vendors
def test_a_card_answers_what_how_often_since_when_to_what_and_where(
    render: Render, problems: Problems
) -> None:
    said = markdown_free(render(body()))

    assert problems(render(body())) == []
    for answer in ("COLLECT died", "no prices", "37 times", "2026", "5 of 5", "place 9", "production"):
        assert answer in said, answer
    assert "https://wakeful.example.com/jobs/1?a=1&" in said
    assert "Mute an hour" in said
    assert PAYLOAD_VALUE not in said


@vendors
def test_what_to_do_is_said_while_it_lasts(render: Render, problems: Problems) -> None:
    advice = "start an instance that serves it"

    said = render(body(advice=advice)).decode().replace("\\", "")
    over = render(body("alert.resolved", advice=advice, resolved_reason="quiet")).decode()

    assert problems(render(body(advice=advice))) == []
    assert "What to do" in said and advice in said
    assert advice not in over


@vendors
def test_a_message_of_the_least_that_there_is_is_a_card(render: Render, problems: Problems) -> None:
    least = {"alert_id": 1, "kind": "trouble", "severity": "info", "title": "a title"}
    text = json.dumps({"type": "alert.opened", "timestamp": "2026-12-01T00:00:00+00:00", "data": least})

    assert problems(render(text)) == []
    assert "a title" in render(text).decode()


@vendors
def test_a_summary_lists_the_alerts_and_counts_those_that_it_leaves_out(
    render: Render, problems: Problems
) -> None:
    rendered = render(digest())

    assert problems(rendered) == []
    said = markdown_free(rendered)
    assert "COLLECT died 0" in said and "(3 times)" in said.replace("\\", "")
    listed = said.count("COLLECT died ")
    assert f"and {30 - listed + 12} more alerts" in said


@vendors
def test_a_summary_tells_what_is_over_from_what_is_open(render: Render, problems: Problems) -> None:
    alerts = [
        {"alert_id": n, "title": f"alert {n}", "severity": "error", "occurrences": 2, "state": state}
        for n, state in enumerate(("open", "resolved"))
    ]

    said = markdown_free(render(body("alert.digest", alerts=alerts))).replace("\\", "")

    assert "alert 0 (2 times)" in said
    assert "\N{WHITE HEAVY CHECK MARK} alert 1 (2 times, resolved)" in said


@vendors
@pytest.mark.case("F76")
@pytest.mark.parametrize("kilobytes", [14, 100])
@pytest.mark.parametrize("letter", ["a", "é", "한", "\N{SLICE OF PIZZA}"])
def test_a_long_error_in_any_script_is_shortened_and_marked_and_what_matters_stays(
    render: Render, problems: Problems, kilobytes: int, letter: str
) -> None:
    error = letter * (kilobytes * 1024 // len(letter.encode()))

    rendered = render(body(error=error, samples=[{"error": error, "job_id": "1"}] * 20, subject=error))

    assert problems(rendered) == []
    said = rendered.decode("utf-8")  # no half of a pair
    assert MARK in said.replace("\\", "")
    for essential in ("COLLECT died", "37 times", "https://wakeful.example.com/jobs/1"):
        assert essential in said, essential


@vendors
@settings(deadline=None, max_examples=25)
@given(st.lists(st.sampled_from(HARSH), max_size=40).map("".join), st.integers(1, 300))
def test_no_text_breaks_a_card(render: Render, problems: Problems, text: str, times: int) -> None:
    long = text * times
    sample = {"job_id": long, "subject": long, "error": long}
    links = [{"label": long, "url": "https://wakeful.example.com/" + "a" * times}] * 7

    message = body(
        title=long, error=long, subject=long, environment=long, samples=[sample] * 20, links=links, kind=long
    )

    assert problems(render(message)) == []


@vendors
@settings(deadline=None, max_examples=25)
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), st.lists, max_leaves=4))
def test_fields_of_another_type_are_left_out(render: Render, problems: Problems, value: object) -> None:
    names = json.loads(body())["data"]

    assert problems(render(body(**dict.fromkeys(names, value)))) == []


@pytest.mark.parametrize("text", ["[]", "{}", "7", '{"data": []}', "not json", "[" * 100_000])
def test_what_is_no_message_is_refused(text: str) -> None:
    for render, _ in VENDORS.values():
        with pytest.raises(ValueError, match=r"."):
            render(text)


def test_slack_reads_no_markup_and_mentions_nobody() -> None:
    said = slack_message(body(title="<!channel> & <http://evil|x>", error="``` <@U1> *bold*")).decode()
    markup = [
        block["text"]["text"]
        for block in json.loads(said)["blocks"]
        if block["type"] == "section" and block.get("text", {}).get("type") == "mrkdwn"
    ]

    assert "<!channel>" not in json.loads(said)["text"]
    assert [text for text in markup if "<@U1>" in text or text.count("```") > 2] == []


def test_a_cut_is_never_inside_an_escape() -> None:
    for length in range(190, 210):
        for block in json.loads(slack_message(body(error="&" * length + "x")))["blocks"]:
            text = block.get("text", {})
            if text.get("type") == "mrkdwn" and text["text"].startswith("```"):
                inside = text["text"].strip("`").replace("&amp;", "")
                assert "&" not in inside and ";" not in inside


def test_discord_reads_no_markup() -> None:
    (embed,) = json.loads(discord_message(body(title="[x](http://evil) **b** @everyone", subject="`c`")))[
        "embeds"
    ]

    assert embed["title"].endswith(r"\[x\]\(http\://evil\) \*\*b\*\* \@everyone")
    assert r"\`c\`" in [field["value"] for field in embed["fields"]]
    assert embed["fields"][-1]["value"].count("](") == 2


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "https://a b", "https://a|b>c", "http://", "x" * 2000, 7]
)
def test_a_link_that_is_no_address_is_no_button(url: object) -> None:
    said = adaptive_message(body(links=[{"label": "Open", "url": url}])).decode()

    assert "actions" not in json.loads(said)["attachments"][0]["content"]


def test_an_incident_is_opened_and_resolved_by_one_key_and_each_alert_has_its_own() -> None:
    opened, updated, resolved, acknowledged, other, elsewhere = (
        json.loads(event(text))
        for text in (
            body(),
            body("alert.updated", title="another title", occurrences=99, severity="critical"),
            body("alert.resolved", resolved_reason="quiet"),
            body("alert.acknowledged"),
            body(alert_id=8),
            body(environment="staging"),
        )
    )

    actions = [one["event_action"] for one in (opened, updated, resolved, acknowledged)]
    assert actions == ["trigger", "trigger", "resolve", "acknowledge"]
    assert len({one["dedup_key"] for one in (opened, updated, resolved, acknowledged)}) == 1
    assert len({one["dedup_key"] for one in (opened, other, elsewhere)}) == 3


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ("2026-12-01T06:12:00+00:00", "06:12:00 UTC"),
        ("2026-12-01T15:11:00+09:00", "06:11:00 UTC (for 1 min)"),
        ("2026-12-01T04:13:00+00:00", "04:13:00 UTC (for 119 min)"),
        ("2026-12-01T03:12:00+00:00", "03:12:00 UTC (for 3 h)"),
        ("2026-11-21T06:00:00+00:00", "06:00:00 UTC (for 10 d)"),
        ("2026-12-02T00:00:00+00:00", "00:00:00 UTC"),
        ("9999-12-31T23:59:59+00:00", "23:59:59 UTC"),
        ("yesterday", "yesterday"),
        ("2026-12-01", "00:00:00 UTC"),
    ],
)
def test_since_when_is_also_told_as_for_how_long(first: str, said: str) -> None:
    (since,) = [
        fact.value
        for fact in telling.times(read(body(first_seen=first)), Room(text=300, entries=1))
        if fact.label == "Since"
    ]

    assert since.endswith(said)


def test_an_error_that_the_title_has_in_full_is_not_said_twice() -> None:
    said = adaptive_message(body(title=f"COLLECT died: {ENGLISH}", error=ENGLISH, samples=[])).decode()
    other = adaptive_message(body(title="COLLECT died", error=ENGLISH, samples=[])).decode()

    assert said.count(ENGLISH) == 2  # with what is read where cards are not shown
    assert other.count(ENGLISH) == 1


@vendors
def test_a_summary_with_long_titles_cuts_no_count(render: Render, problems: Problems) -> None:
    rendered = render(digest(number=40, title="한국어 제목 " * 100))

    assert problems(rendered) == []
    said = markdown_free(rendered).replace("\\", "")
    listed = said.count("\N{LARGE YELLOW CIRCLE}")
    assert f"and {40 - listed + 12} more alerts" in said
    assert said.count(" times)") == listed - 2  # of which one happened once, and one not at all
